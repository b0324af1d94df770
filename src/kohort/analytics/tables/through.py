"""A view that Arrow functions make where SQL would sort and join too much."""

from dataclasses import dataclass

from kohort.analytics.arrow_functions import ArrowFunction


@dataclass(frozen=True, slots=True)
class Through:
    """The rows of `sql`, those of equal `by` in one place, through a function that gives rows of `schema`."""

    sql: str
    by: tuple[str, ...]
    function: ArrowFunction
    schema: str
