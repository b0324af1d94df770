"""`kohort lab`: experiments on real groups that measure the cost of rebalances."""

from typing import Annotated

import typer

from kohort.cli.options import AsJson, read_pairs

_WHAT = (
    "A TOML file, or a built-in experiment: bounce, scale-out, scale-in, crash, takeover, partitions, coordinator, "
    "deploy; table: every experiment that has a figure to reach; report: only what is on file."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lab", epilog="Example: kohort lab bounce --broker kohort,kafka --client java")(lab)


def lab(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=_WHAT)],
    broker: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="kohort, kohort-hold-off, kafka, kafka+gateway.", show_default=False),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="kohort, java, librdkafka, kafka-python, aiokafka.", show_default=False),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="eager, cooperative, consumer.", show_default=False)
    ] = None,
    members: Annotated[int | None, typer.Option(help="Number of members.", show_default=False)] = None,
    partitions: Annotated[int | None, typer.Option(help="Number of partitions.", show_default=False)] = None,
    repeat: Annotated[
        int | None, typer.Option(help="Repetitions, alternating between brokers.", show_default=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Start no trial after this time.", show_default=False)] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory for raw data and the report.", show_default=False)
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Trace each moved partition, hop by hop over broker and members.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting of the experiment, or of the brokers by Kafka's name; repeatable.",
            show_default=False,
        ),
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the experiment with all its settings as TOML, and run nothing.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Repeat trials that are on file.")] = False,
    as_json: AsJson = False,
) -> int:
    """Disturb a group of real members and measure the cost: dark partitions, paused members, waiting.

    The experiment has all settings; options change some of them. Brokers and members are processes
    on this machine; all are ended. Trials that DIR already holds are not repeated, so an
    interrupted run continues where it stopped. Exit code 1 if a trial failed.
    """
    from kohort.cli import lab_run
    from kohort.cli.output import print_text
    from kohort.lab import dump_experiment

    lists = {"brokers": broker, "clients": client, "protocols": protocol}
    given: dict[str, object] = {
        name: [item.strip() for item in value.split(",")] for name, value in lists.items() if value is not None
    }
    plain = {"members": members, "partitions": partitions, "repeat": repeat, "minutes": minutes, "out": out}
    given |= {name: value for name, value in plain.items() if value is not None}
    given |= {"trace": True} if trace else {}
    chosen = lab_run.resolved(experiment, given, read_pairs("--set", settings or ()))
    if print_only:
        print_text(dump_experiment(chosen).rstrip())
        return 0
    return lab_run.run(chosen, again=again, as_json=as_json)
