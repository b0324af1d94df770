"""The goals that benchmarks and the laboratory print are those of docs/performance.md."""

import re
from pathlib import Path

import pytest

from bench import bench_analytics, bench_client, spark_versus
from kohort.lab.goals import ROWS

PERFORMANCE = Path(__file__).parents[1] / "docs" / "performance.md"


def numbers_of(row: str) -> list[float]:
    """The numbers of the goal in a row of a table of performance.md."""
    lines = PERFORMANCE.read_text().splitlines()
    (at,) = [at for at, line in enumerate(lines) if line.startswith(f"| {row} |")]
    head = max(before for before in range(at) if lines[before].startswith("| --- |")) - 1
    column = [cell.strip() for cell in lines[head].split("|")].index("goal")
    return [float(number) for number in re.findall(r"[\d.]*\d", lines[at].split("|")[column])]


@pytest.mark.parametrize(
    ("documented", "goals"),
    [
        ("restart of ten, consumer protocol: dark, total", [("bounce", "consumer", "dark_sum")]),
        ("restart of ten, cooperative: dark, total", [("bounce", "cooperative", "dark_sum")]),
        ("restart of ten, eager, heartbeats out of step: dark, total", [("bounce-out-of-step", "eager", "dark_sum")]),
        (
            "one owner of six, two join, consumer: settled after the last join",
            [("takeover", "consumer", "after_join_max")],
        ),
        (
            "one joins 20, consumer: settled; dark, median",
            [("one-joins-20", "consumer", "after_join_max"), ("one-joins-20", "consumer", "dark_p50")],
        ),
        ("100 partitions become 1,000, consumer", [("partitions", "consumer", "wall_max")]),
        ("one is killed: dark, longest, consumer; cooperative", [("crash", "consumer", "dark_max")]),
        ("one leaves: settled, consumer; cooperative", [("leave", "consumer", "wall_max")]),
    ],
)
def test_the_table_of_the_laboratory_has_the_goals_of_the_document(
    documented: str, goals: list[tuple[str, str, str]]
) -> None:
    most: dict[tuple[str, str, str], float | None] = {
        (row.name, goal.protocol, goal.figure): goal.most_ms for row in ROWS for goal in row.goals
    }
    assert [most[goal] for goal in goals] == [1000 * number for number in numbers_of(documented)]


@pytest.mark.parametrize(
    ("documented", "case"),
    [
        ("batch, seven columns", "batch"),
        ("batch, `value` only", "value"),
        ("batch, 1 KB, lz4", "large"),
        ("stream", "stream"),
        ("stream as a member of a group", "member"),
        ("sink", "sink"),
    ],
)
def test_the_comparison_with_the_jvm_connector_has_the_goals_of_the_document(documented: str, case: str) -> None:
    assert numbers_of(documented) == [spark_versus.AIMS[case]]


def test_the_goal_of_an_analysis_is_that_of_the_document() -> None:
    row = "`kohort analyse` of 10 M records (`python bench/bench_analytics.py --rows 10000000`)"
    assert numbers_of(row) == [bench_analytics.AIM_S]


def test_the_other_goals_of_spark_and_of_an_idle_member_are_those_of_the_document() -> None:
    assert numbers_of("start to the first batch") == [spark_versus.START_AIM_S]
    assert numbers_of("latency at 1,000 records/s, p50 / p99") == list(spark_versus.LATENCY_AIMS_MS.values())
    (idle,) = [bar.least for bar in bench_client.BARS if bar.kind == "idle"]
    assert numbers_of("idle member, of a core") == [idle]
