"""Two synthetic market feeds for the demo: trades and quotes, a little out of order, seeded."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

OPENING = int(datetime(2026, 1, 5, 9, 30, tzinfo=UTC).timestamp()) * 1_000_000  # microseconds
RATE = 60_000  # rows per second of market time and feed
JITTER = 20_000  # microseconds by which a row may arrive out of order
STRAGGLERS = 2e-5  # share of rows that come seconds late: the join counts them
CHEAPEST, DEAREST = 10.0, 500.0

SYMBOLS = ("ALFA", "BRVO", "CHRL", "DLTA", "ECHO", "FXTR", "GOLF", "HOTL", "INDI", "JULI")


class Market:
    """Makes the next ``rows`` trades and quotes; the same seed gives the same market."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._symbols = pa.array(SYMBOLS)
        self._clock = 0.0  # microseconds since the opening

    @property
    def now(self) -> float:
        """Seconds of market time since the opening."""
        return self._clock / 1e6

    def next(self, rows: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """A batch of each feed, covering the same stretch of time."""
        span = rows / RATE * 1e6
        feeds = (
            self._feed(rows, span, "trade_id", "qty"),
            self._feed(rows, span, "quote_id", "size"),
        )
        self._clock += span
        return feeds

    def _feed(self, rows: int, span: float, key: str, amount: str) -> pa.RecordBatch:
        draw = self._random
        times = self._clock + np.arange(rows) * (span / rows) - draw.integers(0, JITTER, rows)
        times = np.where(draw.random(rows) < STRAGGLERS, times - 5e6, times)
        prices = draw.uniform(CHEAPEST, DEAREST, rows)
        # A symbol trades around its own price: the symbol follows from the price.
        symbols = (prices - CHEAPEST) / (DEAREST - CHEAPEST) * len(SYMBOLS)
        first = int(self._clock / 1e6 * RATE)
        return pa.record_batch(
            {
                "ts": pa.array((OPENING + times).astype("datetime64[us]")),
                key: pa.array(np.arange(first, first + rows)),
                "symbol": pa.DictionaryArray.from_arrays(symbols.astype(np.int8), self._symbols),
                "price": pa.array(prices.round(3)),
                amount: pa.array(draw.integers(1, 1_000, rows, dtype=np.int32)),
            }
        )
