"""Polars frames in, a Polars frame out: any library that speaks Arrow's C stream interface will do."""

import polars as pl

import slidejoin as sj


def main() -> None:
    # Which sensor readings fall into which of the operating ranges that were set in the last 100 rows?
    ranges = pl.DataFrame(
        {"range": ["cold", "mild", "hot"], "low": [-20.0, 5.0, 25.0], "high": [5.0, 25.0, 60.0]}
    )
    readings = pl.DataFrame({"sensor": [1, 2, 3, 4], "temp": [4.5, 5.0, 31.2, None]})
    join = sj.Join("r.temp >= l.low AND r.temp < l.high", window=sj.Rows(100))
    join.push(left=ranges)
    matches = pl.DataFrame(join.push(right=readings))
    print(matches.select("sensor", "temp", "range").sort("sensor"))


if __name__ == "__main__":
    main()
