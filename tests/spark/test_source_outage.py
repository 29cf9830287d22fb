"""A real query whose broker goes away and returns."""

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from levada import Admin
from levada.client.admin import NewTopic
from tests.brokers import BrokerProcess
from tests.spark.sourcing import Kept, numbered, send, start, stream

IS_SOAK = os.environ.get("LEVADA_SOAK") == "1"
AWAY_SECONDS = 60.0 if IS_SOAK else 2.0
WAIT_SECONDS = 110


@pytest.mark.timeout(300)
def test_a_query_goes_on_when_its_broker_returns(
    spark: SparkSession, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    with Admin(own_broker.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 2)]).raise_any()
    send(own_broker.bootstrap, "orders", numbered(10))
    kept = Kept()
    query = start(
        stream(spark, own_broker.bootstrap, subscribe="orders", startingOffsets="earliest"), tmp_path / "state", kept
    )
    try:
        wait_for(query, kept, 10)
        own_broker.kill()
        time.sleep(AWAY_SECONDS)
        own_broker.start()
        send(own_broker.bootstrap, "orders", numbered(10, first=10))
        wait_for(query, kept, 20)
    finally:
        query.stop()
    assert kept.values == list(numbered(20))


def wait_for(query: StreamingQuery, kept: Kept, count: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while len(kept.values) < count:
        assert query.exception() is None
        assert time.monotonic() < deadline, f"{len(kept.values)} of {count} records"
        time.sleep(0.05)
