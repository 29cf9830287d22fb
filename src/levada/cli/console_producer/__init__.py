"""`levada console-producer`: sends the lines of its input as records, as Apache Kafka's ConsoleProducer does."""

from levada.cli.console_producer.command import add_arguments, run

__all__ = ["add_arguments", "run"]
