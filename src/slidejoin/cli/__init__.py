"""The command line: ``slidejoin demo | run | explain | bench``.

Nothing here knows how to join. The commands read files, hand batches to :class:`slidejoin.Join`, write what
comes back and tell a person what happened. Exit codes: 0 ok, 1 failure, 2 usage.
"""

from slidejoin.cli.main import app, main

__all__ = ["app", "main"]
