"""One Spark session for all tests of a process, small and quiet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from slidejoin.spark import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTITIONS = 3


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where workers keep copies of entries; named so that tests can damage them."""
    return tmp_path_factory.mktemp("entries")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Iterator[SparkSession]:
    os.environ["SLIDEJOIN_SPARK_CACHE"] = str(cache_folder)  # inherited by the workers
    session = (
        SparkSession.builder.master("local[2]")
        .config(map=settings(partitions=PARTITIONS))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "America/New_York")  # nothing may depend on it
        .config("spark.local.dir", str(tmp_path_factory.mktemp("scratch")))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
