"""Definition of a view by an Arrow function, for cases in which SQL would sort and join too much."""

from dataclasses import dataclass

from kohort.analytics.arrow_functions import ArrowFunction


@dataclass(frozen=True, slots=True)
class ArrowView:
    """Rows of `sql`, collected by equal `by` columns and passed to a function that returns rows of `schema`."""

    sql: str
    by: tuple[str, ...]
    function: ArrowFunction
    schema: str
