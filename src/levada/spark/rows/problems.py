"""What is wrong with how rows are used, in one line that says what to do."""

from collections.abc import Collection, Iterable

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from levada.model.near_names import did_you_mean


class RowsError(ValueError):
    """A schema, a column, a rule or a format that cannot be used; the text is one line that says what to do."""


def one_of(what: str, given: str, known: Collection[str]) -> str:
    """The given word, or an error with those that are known."""
    if given in known:
        return given
    raise RowsError(f"{what} must be one of {', '.join(known)}, not {given!r}")


def column_of(frame: DataFrame, given: str | Column, what: str) -> Column:
    """The column of that name, also inside a struct (`_source.timestamp`); an error if there is none."""
    if isinstance(given, Column):
        refuse_unusable(frame, given, what)
        return given
    if given in frame.columns:
        return sf.col(quoted(given))
    top, _, inner = given.partition(".")
    if inner and top in frame.columns:
        refuse_unusable(frame, sf.col(given), what)
        return sf.col(given)
    raise RowsError(f"{what}: there is no column {given!r}{did_you_mean(given, frame.columns)}")


def columns_of(frame: DataFrame, given: str | Iterable[str], what: str) -> list[Column]:
    """All of them; at least one."""
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise RowsError(f"{what}: name at least one column")
    return [column_of(frame, name, what) for name in names]


def refuse_unusable(frame: DataFrame, column: Column, what: str) -> None:
    """Let Spark resolve it, which reads nothing, and say in one line why it cannot."""
    try:
        frame.select(column)
    except PySparkException as error:
        raise RowsError(f"{what}: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """Spark explains at length; the first line has the reason."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def quoted(name: str) -> str:
    """As Spark takes a name for one column, whatever is in it: a dot would lead into a struct."""
    return "`" + name.replace("`", "``") + "`"
