"""Settings for a laptop and for tests, where Kafka's own defaults are for production."""

from typing import Final

DEVELOPMENT: Final = {
    # A group need not wait for members that may still come.
    "group.initial.rebalance.delay.ms": "0",
    # The first group and the first transaction are quick: there is one partition to make.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # There is one broker.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # A segment's index files are made at their full size.
    "log.index.size.max.bytes": "65536",
}
