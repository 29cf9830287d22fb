"""`levada console-consumer`: prints records as lines, as Apache Kafka's ConsoleConsumer does."""

from levada.cli.console_consumer.command import add_arguments, run

__all__ = ["add_arguments", "run"]
