"""The flights, as records and as the CSV's own sums."""

import json

from kohort.demo.compare import results_table, total
from kohort.demo.flights import Tally, count, flights, rows, tally
from kohort.demo.member import pack, unpack


def test_each_row_becomes_one_record_in_the_order_of_departure() -> None:
    records = flights()
    assert len(records) == 336_776
    assert records == sorted(records, key=lambda flight: flight.departed_at)
    first = json.loads(records[0].value)
    # UA 1545 was to leave at 5:15 in New York, 10:15 UTC, and left two minutes late.
    assert (first["carrier"], first["flight"], first["dep_delay"]) == ("UA", 1545, 2)
    assert records[0].departed_at == 1_357_035_420_000
    assert sum(flight.tail_number is None for flight in records) == 2_512


def test_the_sums_are_those_of_the_published_data() -> None:
    sums = tally(rows())
    assert len(sums) == 16
    assert sums["UA"] == Tally(58_665, 205_589)
    assert total(sums).flights == 336_776


def test_counts_are_stored_in_a_commits_metadata() -> None:
    tallies: dict[str, Tally] = {}
    count(tallies, "HA", -30)
    count(tallies, "HA", None)
    assert unpack(pack(tallies)) == {"HA": Tally(2, -30)}
    assert unpack("") == {}


def test_differences_from_the_csv_are_marked() -> None:
    right, wrong = {"UA": Tally(1, 2)}, {"UA": Tally(1, 3)}
    cells = [str(cell) for column in results_table(right, right, wrong).columns for cell in column.cells]
    assert "[red]3[/red]" in cells
    assert "[red]1[/red]" not in cells
