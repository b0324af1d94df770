"""`kohort lab`: experiments on real groups, and what their rebalances cost."""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.options import AsJson, read_pairs
from kohort.cli.output import remark, say
from kohort.errors import ConfigError, KohortError

if TYPE_CHECKING:
    from kohort.lab.experiment import Brokers
    from kohort.lab.summary import Summary
    from kohort.lab.trial import Outcome, Trial


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lab", epilog="Example: kohort lab bounce --broker kohort,kafka --client java")(lab)


def lab(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO,...",
            help="bounce, scale-out, scale-in, crash, takeover, partitions, "
            "coordinator, deploy; report: only what is on file.",
        ),
    ],
    broker: Annotated[
        str, typer.Option(metavar="NAME,...", help="kohort, kohort-hold-off, kafka.")
    ] = "kohort,kohort-hold-off",
    client: Annotated[
        str, typer.Option(metavar="NAME,...", help="kohort, java, librdkafka, kafka-python, aiokafka.")
    ] = "kohort",
    protocol: Annotated[
        str, typer.Option(metavar="NAME,...", help="eager, cooperative, consumer.")
    ] = "eager,cooperative,consumer",
    members: Annotated[int, typer.Option(min=1)] = 10,
    partitions: Annotated[int, typer.Option(min=1)] = 50,
    repeat: Annotated[int, typer.Option(min=1, help="Repetitions; those of all brokers take turns.")] = 1,
    restore_ms: Annotated[int, typer.Option(min=0, help="Pretended time of restoring a partition that is won.")] = 0,
    state_keys: Annotated[
        int,
        typer.Option(min=0, help="Keep counts in a changelog with so many keys per partition, and restore from it."),
    ] = 0,
    warmup: Annotated[
        bool, typer.Option("--warmup", help="Partitions move only to members that have copied their state.")
    ] = False,
    num_standby: Annotated[
        int, typer.Option(min=0, help="So many members copy each partition beside its owner, as warm-up does.")
    ] = 0,
    commit_ms: Annotated[
        int, typer.Option(min=0, help="How often members commit; 0: only before they give up.")
    ] = 5_000,
    tick_ms: Annotated[int, typer.Option(min=1, help="Each partition gets a record so often.")] = 50,
    gap_ms: Annotated[int, typer.Option(min=0, help="Bounce: between the end of a member and its next start.")] = 0,
    rest_ms: Annotated[
        int, typer.Option(min=0, help="The group rests so long before each trigger, and up to as much again.")
    ] = 3_000,
    out_of_step: Annotated[
        bool, typer.Option("--out-of-step", help="Spread heartbeats before each trigger, as hours of quiet do.")
    ] = False,
    settle_s: Annotated[float, typer.Option(help="How long a group may take to come to rest.")] = 60.0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A broker's setting, in Kafka's words.", show_default=False),
    ] = None,
    minutes: Annotated[float, typer.Option(help="Begin no trial after so long.")] = 30.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where raw data and report go.")] = Path("lab-out"),
    again: Annotated[bool, typer.Option("--again", help="Run what is on file once more.")] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...", help="Use this cluster instead of brokers of our own.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Do something to a group of real members and measure what it costs: dark partitions, paused members, waiting.

    Brokers and members are processes of this machine; all are ended. Trials that DIR holds already are not repeated, so
    a run that was interrupted goes on where it stopped. Exit code 1 when a trial failed.
    """
    from kohort.lab.brokers import BROKERS, GIVEN
    from kohort.lab.experiment import outcomes, run
    from kohort.lab.summary import summarise
    from kohort.lab.trial import Trial

    undone = 0
    if scenario != "report":
        first = Trial(
            scenario="", broker="", client="", protocol="", members=members, partitions=partitions,
            tick_ms=tick_ms, restore_ms=restore_ms, state_keys=state_keys, commit_ms=commit_ms, gap_ms=gap_ms,
            out_of_step=out_of_step, settle_s=settle_s, rest_ms=rest_ms, warmup=warmup, num_standby=num_standby,
        )  # fmt: skip
        brokers = [GIVEN] if bootstrap else _chosen("broker", broker, BROKERS)
        trials = _planned(first, scenario, client, protocol, brokers, repeat)
        if again:
            _forget(trials, out)
        undone = run(trials, out, minutes, _started(settings or (), bootstrap), remark)
    kept = outcomes(out)
    if not kept:
        raise ConfigError(f"There is nothing to report in {out}: run a scenario first, as in kohort lab bounce.")
    summaries = summarise(kept)
    _report(kept, out)
    if as_json:
        say(json.dumps([asdict(one) for one in summaries]))
    else:
        _print(summaries)
    return 1 if undone else 0


def _planned(
    first: "Trial", scenario: str, client: str, protocol: str, brokers: "Sequence[str]", repetitions: int
) -> "list[Trial]":
    """All that was asked for and can be run."""
    from kohort.lab.experiment import plan
    from kohort.lab.member import CLIENTS
    from kohort.lab.order import PROTOCOLS
    from kohort.lab.scenarios import SCENARIOS

    trials = plan(
        first,
        _chosen("scenario", scenario, SCENARIOS),
        _chosen("client", client, CLIENTS),
        _chosen("protocol", protocol, PROTOCOLS),
        brokers,
        repetitions,
    )
    if not trials:
        raise ConfigError(
            "None of that can be run: deploy needs the consumer protocol and Kohort, aiokafka is eager; warm-up needs"
            " the client kohort, and the consumer protocol with it a broker of Kohort."
        )
    return trials


def _forget(trials: "list[Trial]", out: Path) -> None:
    """Have nothing of them on file."""
    from kohort.lab.experiment import path_of

    for trial in trials:
        path_of(trial, out).unlink(missing_ok=True)


def _started(settings: "Iterable[str]", bootstrap: str | None) -> "Brokers":
    """How each broker is started, with the user's settings."""
    from kohort.lab.brokers import BROKERS, GIVEN, LabBroker

    pairs = read_pairs("--set", settings)
    brokers: Brokers = {name: partial(start, pairs) for name, start in BROKERS.items()}
    if bootstrap is None:
        return brokers
    return {GIVEN: lambda: nullcontext(LabBroker(bootstrap))}


def _report(kept: "Sequence[Outcome]", out: Path) -> None:
    """The page and the Parquet files, where there is what they need."""
    from kohort.lab.raw import write_parquet
    from kohort.lab.report import write_report

    try:
        write_parquet(kept, out)
        write_report(kept, out / "report.html")
    except KohortError as missing:
        remark(str(missing))
    else:
        remark(f"wrote {out / 'report.html'}")


def _chosen(what: str, given: str, known: Iterable[str]) -> list[str]:
    chosen = [one.strip() for one in given.split(",")]
    for one in chosen:
        if one not in known:
            raise ConfigError(f"There is no {what} {one!r}: choose from {', '.join(known)}.")
    return chosen


def _print(summaries: "Sequence[Summary]") -> None:
    from rich.console import Console

    from kohort.lab.table import WIDE, summary_table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    console.print(summary_table(summaries, console.width))
