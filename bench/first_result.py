"""A fresh process from ``import slidejoin`` to its first result; run by the startup section, prints seconds as JSON.

Nothing is imported before the clock starts but what reads the clock.
"""

from time import perf_counter, process_time

start = perf_counter()

import slidejoin as sj  # noqa: E402  # this import is what is timed

imported = perf_counter()
join = sj.Join("abs(l.x - r.x) <= 1", window=sj.Rows(1000), threads=1)
made = perf_counter()
join.push(left={"x": [1, 5, 9]})
left, right = join.push(right={"x": [2, 7]}).indices()
done = perf_counter()

import json  # noqa: E402

assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == [(0, 0)]
timing = {"import": imported - start, "join": made - imported, "first_result": done - start}
print(json.dumps({**timing, "cpu": process_time()}))
