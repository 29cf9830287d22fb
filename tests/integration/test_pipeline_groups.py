"""The groups of a pipeline's queries, and how far they are said to be while they run."""

import time

from levada import Admin, Consumer, NewTopic, Producer, TopicPartition
from levada.spark.pipeline.groups import lags_of
from levada.spark.pipeline.meter import ProgressWatch
from levada.spark.pipeline.progress import QueryProgress
from levada.spark.source.committing import OffsetCommitter
from tests.brokers import BrokerProcess

PLACE = TopicPartition("orders", 0)


def test_a_group_that_others_use_keeps_no_other_back(own_broker: BrokerProcess) -> None:
    with Producer(own_broker.bootstrap) as producer, Admin(own_broker.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 1)]).raise_any()
        producer.send_many("orders", [b"one"] * 10).result()
        with Consumer(own_broker.bootstrap, group_id="shop.used") as consumer:
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.1)
            committer = OffsetCommitter(admin)
            committer.commit("shop.used", {PLACE: 4})
            committer.commit("shop.totals", {PLACE: 7})
            committer.close()
            assert lags_of(admin, "shop", ["used", "totals", "none"]) == {"totals": 3}


def test_the_lag_of_a_query_grows_while_its_batch_runs(own_broker: BrokerProcess) -> None:
    """What Spark reports was asked for when the batch was planned: there it has no lag."""
    own = TopicPartition("totals", 0)
    at_start = [
        QueryProgress("totals", 3, 10, 0.0, 40, 0, offsets={PLACE: 10}),
        QueryProgress("later", 1, 0, 0.0, 40, 0, offsets={PLACE: 0, own: 0}),
        QueryProgress("files", 1, 5, 0.0, 40, 2),
    ]
    with Producer(own_broker.bootstrap) as producer, Admin(own_broker.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 1), NewTopic("totals", 1)]).raise_any()
        producer.send_many("orders", [b"one"] * 10).result()
        with ProgressWatch(own_broker.bootstrap, {"totals"}) as watch:
            assert [one.lag for one in watch.measured(at_start)] == [None, None, 2]
            found = shown_when(watch, at_start, [0, 10, 2])
            for topic in ("orders", "totals"):
                producer.send_many(topic, [b"one"] * 300).result()
            found = shown_when(watch, at_start, [300, 610, 2])
            assert found[0].lag_s is not None
            assert found[0].lag_s > 0.1
            # What "totals" has is no news: this pipeline wrote it.
            rate = 300 / found[0].lag_s
            assert 0.5 * rate < watch.events_per_second() < 1.5 * rate


def shown_when(watch: ProgressWatch, progress: list[QueryProgress], lags: list[int]) -> list[QueryProgress]:
    deadline = time.monotonic() + 20
    while True:
        found = watch.measured(progress)
        seen = [one.lag for one in found]
        if seen == lags:
            return found
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
