"""The groups of a pipeline's queries: one that cannot be told keeps no other back."""

from levada import Admin, Consumer, NewTopic, Producer, TopicPartition
from levada.spark.pipeline.groups import lags_of
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
