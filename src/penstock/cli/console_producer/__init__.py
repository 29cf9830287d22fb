"""`penstock console-producer`: sends the lines of its input as records, as Apache Kafka's ConsoleProducer does."""

from penstock.cli.console_producer.command import add_arguments, run

__all__ = ["add_arguments", "run"]
