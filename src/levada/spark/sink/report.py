"""What a task tells the driver."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from levada.spark.sink.names import WriteName
from levada.spark.sink.options import Delivery

if TYPE_CHECKING:
    from levada.client.producer import TransactionTicket


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """Goes with each task's end, through Spark, to the driver, which commits."""

    name: WriteName
    delivery: Delivery
    rows: int = 0
    ticket: "TransactionTicket | None" = None
    """The open transaction with the rows; None where there is none to commit."""
    is_skipped: bool = False
    """The batch was visible already when the task began."""
