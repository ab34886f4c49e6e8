"""Stragglers, silence and the watermark: what is waited for, what is set aside, and how time moves on."""

from datetime import datetime, timedelta

import slidejoin as sj

NOON = datetime(2026, 1, 5, 12)


def at(*seconds: float) -> list[datetime]:
    return [NOON + timedelta(seconds=s) for s in seconds]


def main() -> None:
    # Every alarm should have a temperature reading within 5 s that is within 2 degrees; we want those that have none.
    join = sj.Join(
        "abs(l.temp - r.temp) <= 2",
        window=sj.Time("5 seconds", on="ts"),
        how="anti",
        lateness="3 seconds",
        late="keep",
    )
    unmatched = [join.push(left={"ts": at(0, 2, 4), "temp": [20.0, 50.0, 21.0]})]
    unmatched.append(join.push(right={"ts": at(1, 3), "temp": [19.0, 22.5]}))
    print("held by", join.stats().held_by, "at", join.stats().watermark.time())

    # 12:00:10 on both sides: the watermark is 12:00:07. A reading of 12:00:06 comes too late.
    unmatched.append(join.push(left={"ts": at(10), "temp": [80.0]}, right={"ts": at(10), "temp": [20.0]}))
    unmatched.append(join.push(right={"ts": at(6), "temp": [50.0]}))
    print("late", join.late()[1].to_pylist())

    # Both feeds fall silent. Heartbeats say that time passes, so that unmatched alarms come out.
    unmatched.append(join.advance(left=NOON + timedelta(seconds=60), right=NOON + timedelta(seconds=60)))
    for row in (row for matches in unmatched for row in matches.to_table().to_pylist()):
        print("no reading for", row["ts"].time(), row["temp"])
    print(dict(join.stats().left))


if __name__ == "__main__":
    main()
