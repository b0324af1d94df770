"""Comparison of the demo's three results."""

from collections.abc import Mapping

from rich.table import Table

from kohort.demo.flights import Tally


def total(tallies: Mapping[str, Tally]) -> Tally:
    """Return the sum over all carriers."""
    result = Tally()
    for line in tallies.values():
        result.add(line)
    return result


def results_table(
    expected: Mapping[str, Tally], group: Mapping[str, Tally], spark: Mapping[str, Tally] | None
) -> Table:
    """Return a table of flights and minutes of delay per carrier, from the CSV, the group and Spark.

    `spark` is None if Spark did not run. Values that differ from the CSV are red.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("carrier")
    sources = [("CSV", expected), ("group", group)] + ([("Spark", spark)] if spark is not None else [])
    for name, _ in sources:
        table.add_column(f"{name}: flights", justify="right")
        table.add_column("delay, min", justify="right")
    for carrier in sorted(expected, key=lambda name: -expected[name].flights):
        cells = [carrier]
        for _, tallies in sources:
            line = tallies.get(carrier, Tally())
            right = expected[carrier]
            cells += [_cell(line.flights, right.flights), _cell(line.arrival_delay, right.arrival_delay)]
        table.add_row(*cells)
    sums = [total(tallies) for _, tallies in sources]
    table.add_section()
    table.add_row(
        "all", *(f"{number:,}" for line in sums for number in (line.flights, line.arrival_delay)), style="bold"
    )
    return table


def _cell(number: int, right: int) -> str:
    return f"{number:,}" if number == right else f"[red]{number:,}[/red]"
