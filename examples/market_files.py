"""Write two small feeds for `slidejoin run`: trades.parquet and quotes.csv, in the folder given (or here).

    python examples/market_files.py feeds
    slidejoin run --left feeds/trades.parquet --right feeds/quotes.csv \
        --on "abs(l.price - r.price) <= 0.05 AND l.qty <= r.size" \
        --window "10 seconds" --time ts --out matches.parquet
"""

import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

ROWS, SPAN = 20_000, 600  # rows per feed, seconds that they cover
OPENING = np.datetime64(datetime(2026, 1, 5, 9, 30), "us")


def feed(seed: int, key: str, amount: str) -> pa.Table:
    draw = np.random.default_rng(seed)
    times = np.sort(draw.integers(0, SPAN * 1_000_000, ROWS))
    return pa.table(
        {
            "ts": OPENING + times,
            key: np.arange(ROWS),
            "price": draw.uniform(10, 500, ROWS).round(2),
            amount: draw.integers(1, 1_000, ROWS),
        }
    )


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(feed(1, "trade_id", "qty"), folder / "trades.parquet")
    pa.csv.write_csv(feed(2, "quote_id", "size"), folder / "quotes.csv")
    print(f"{ROWS:,} trades and {ROWS:,} quotes over {SPAN // 60} minutes")


if __name__ == "__main__":
    main()
