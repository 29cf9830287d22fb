"""`levada producer-perf-test`: measures how fast records can be sent, as Apache Kafka's ProducerPerformance does."""

from levada.cli.producer_perf_test.command import add_arguments, run

__all__ = ["add_arguments", "run"]
