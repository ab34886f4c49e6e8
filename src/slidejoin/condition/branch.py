"""Branches: a condition as alternatives that never give the same pair twice.

Each branch has filters (one side each), comparisons that an index can answer and a residual. Branch k also
demands that no earlier branch is TRUE, so a pair matches in exactly one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slidejoin.condition import access, normalise, typed
from slidejoin.condition.paths import AccessPath, EqualityPath, JointPath, Tree
from slidejoin.condition.predicate import Predicate, predicate_of
from slidejoin.condition.typed import Expr
from slidejoin.condition.watch import Watch

_RANK = {"equality": 0, "band": 1, "inequality": 2, "unequal": 3}


class Branch:
    """One alternative of a condition."""

    def __init__(self, leaves: list[Expr], earlier: list[Expr]) -> None:
        self.whole = typed.conjunction(leaves)
        self.text = self.whole.text
        exclusions: list[Expr] = []
        one_sided: tuple[list[Expr], list[Expr]] = ([], [])
        for leaf in leaves:
            if leaf.sides in (1, 2):
                one_sided[leaf.sides - 1].append(leaf)
        negated = {typed.negation(leaf).text for leaf in leaves} | {
            leaf.operand.text for leaf in leaves if isinstance(leaf, typed.Not)
        }
        for before in earlier:
            parts = before.parts if isinstance(before, typed.And) else (before,)
            if any(part.text in negated for part in parts):
                continue  # the two contradict each other: no pair can be in both
            excluded = typed.negation(typed.is_true(before))
            if before.sides in (1, 2):
                one_sided[before.sides - 1].append(excluded)
            else:
                exclusions.append(excluded)
        self.pairs = [leaf for leaf in leaves if leaf.sides == 3]
        self.exclusions = exclusions
        self.filters: tuple[Predicate | None, Predicate | None] = (
            predicate_of(one_sided[0]), predicate_of(one_sided[1]),
        )  # fmt: skip
        self.verify = predicate_of(self.pairs + exclusions)
        self._paths = (self._find(0), self._find(1))

    def paths(self, stored: int) -> tuple[AccessPath, ...]:
        """Ways to index one side, most promising kind first; empty if nothing can be indexed."""
        return self._paths[stored]

    def joint(self, paths: Sequence[AccessPath]) -> JointPath:
        """Several paths of one side as one, for an index that holds several keys."""
        return JointPath(paths, predicate_of(self._left(paths) + self.exclusions))

    def watch(self, paths: Sequence[AccessPath], always: Sequence[AccessPath]) -> Watch | None:
        """A watch over all that ``paths`` leave to be checked, if those that ``always`` hold are that, and can be watched."""
        left = {id(leaf) for leaf in self._left(paths)}
        simple = [path for path in always if path.exact and not any(tree.overlaps for tree in path.trees)]
        of_use = [path for path in simple if any(id(tree.expression) in left for tree in path.trees)]
        covered = {id(tree.expression) for path in of_use for tree in path.trees}
        return Watch(of_use) if of_use and left <= covered and not self.exclusions else None

    def _left(self, paths: Sequence[AccessPath]) -> list[Expr]:
        """The two-sided leaves that paths do not answer for good."""
        hashed = any(isinstance(path, EqualityPath) for path in paths)
        covered = {id(tree.expression) for path in paths for tree in path.trees if tree.exact and not hashed}
        return [leaf for leaf in self.pairs if id(leaf) not in covered]

    @property
    def residual(self) -> list[Expr]:
        """The two-sided leaves that no path of either side answers."""
        return [leaf for leaf in self.pairs if tree_of(leaf, 0) is None and tree_of(leaf, 1) is None]

    def _find(self, stored: int) -> tuple[AccessPath, ...]:
        groups: dict[str, list[Tree]] = {}
        for leaf in self.pairs:
            tree = tree_of(leaf, stored)
            if tree is not None:
                groups.setdefault(tree.key.identity, []).append(tree)
        paths: list[AccessPath] = []
        for group in groups.values():
            covered = {id(tree.expression) for tree in group if tree.exact}
            rest = [leaf for leaf in self.pairs if id(leaf) not in covered]
            paths.append(AccessPath(group, predicate_of(rest + self.exclusions)))
        paths.sort(key=lambda path: (_RANK[path.kind], not path.exact))
        points = [next((t for t in group if t.constraint is not None and t.constraint.point), None)
                  for group in groups.values()]  # fmt: skip
        equalities = [tree for tree in points if tree is not None]
        if len(equalities) > 1:
            paths.insert(0, EqualityPath(equalities, predicate_of(self.pairs + self.exclusions)))
        return tuple(paths)


def tree_of(leaf: Expr, stored: int) -> Tree | None:
    """A leaf as comparisons on one key of the stored side, or None."""
    if isinstance(leaf, typed.Or):
        return Tree(leaf, stored) if normalise.keys_of(leaf) is not None else None
    return Tree(leaf, stored) if access.solve(leaf, stored) is not None else None


class BoundCondition:
    """A condition whose column types are known."""

    def __init__(self, text: str, expression: Expr, schemas: tuple[pa.Schema, pa.Schema]) -> None:
        self.text = text
        self.schemas = schemas
        self.predicate = Predicate(expression)
        found = normalise.branches_of(normalise.simplify(expression))
        branches: list[Branch] = []
        for leaves in found:
            branches.append(Branch(leaves, [branch.whole for branch in branches]))
        self.branches: tuple[Branch, ...] = tuple(branches)

    def describe(self) -> str:
        """How the condition was taken apart, one fact a line."""
        lines = [("condition", " ".join(self.text.split()))]
        if not self.branches:
            lines.append(("never", "no pair can match"))
        for number, branch in enumerate(self.branches, 1):
            if len(self.branches) > 1:
                lines.append((f"branch {number}", branch.text))
            lines.extend(_describe(branch))
        width = max(len(name) for name, _ in lines) + 1
        return "\n".join(f"{name:<{width}} {text}" for name, text in lines)


def _describe(branch: Branch) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, predicate in zip(("left filter", "right filter"), branch.filters, strict=True):
        if predicate is not None:
            lines.append((name, predicate.text))
    shown: set[tuple[int, ...]] = set()
    for stored in (1, 0):
        for path in branch.paths(stored):
            if isinstance(path, EqualityPath):
                lines.append(("equality", f"key {path.key_text}, by hash: {path.bounds_text}"))
                continue
            leaves = tuple(sorted(id(tree.expression) for tree in path.trees))
            partner = next((other for other in branch.paths(1 - stored) if not isinstance(other, EqualityPath)
                            and tuple(sorted(id(tree.expression) for tree in other.trees)) == leaves), None)  # fmt: skip
            if leaves in shown:
                continue
            shown.add(leaves)
            keys = path.key_text if partner is None else f"{partner.key_text} | {path.key_text}"
            checked = "" if path.exact else "; candidates verified"
            lines.append((path.kind, f"{path.bounds_text}, key {keys}{checked}"))
    residual = branch.residual
    lines.append(("residual", typed.conjunction(residual).text if residual else "(none)"))
    if branch.exclusions:
        lines.append(("except", "pairs of earlier branches"))
    return lines
