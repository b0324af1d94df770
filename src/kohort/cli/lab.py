"""`kohort lab`: experiments on real groups that measure the cost of rebalances."""

from pathlib import Path

import typer

from kohort.cli import lab_options as option
from kohort.cli import lab_run as running
from kohort.cli.options import AsJson


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lab", epilog="Example: kohort lab bounce --broker kohort,kafka --client java")(lab)


def lab(
    scenario: option.Scenarios,
    broker: option.Brokers = "",
    client: option.Clients = "kohort",
    protocol: option.Protocols = "eager,cooperative,consumer",
    members: option.Count = 10,
    partitions: option.Count = 50,
    repeat: option.Repeat = 1,
    restore_ms: option.RestoreMs = 0,
    state_keys: option.StateKeys = 0,
    store: option.Kept = "memory",
    warmup: option.Warmup = False,
    num_standby: option.NumStandby = 0,
    max_warmup_replicas: option.MaxWarmups = 2,
    acceptable_recovery_lag: option.AcceptableLag = 100,
    probing_rebalance_interval_ms: option.ProbingMs = 5_000,
    commit_ms: option.CommitMs = 5_000,
    tick_ms: option.TickMs = 50,
    gap_ms: option.GapMs = 0,
    rest_ms: option.RestMs = 3_000,
    out_of_step: option.OutOfStep = False,
    settle_s: option.SettleS = 60.0,
    row: option.Rows = None,
    settings: option.Settings = None,
    minutes: option.Minutes = 30.0,
    out: option.Out = Path("lab-out"),
    again: option.Again = False,
    bootstrap: option.Bootstrap = None,
    as_json: AsJson = False,
) -> int:
    """Disturb a group of real members and measure the cost: dark partitions, paused members, waiting.

    Brokers and members are processes on this machine; all are ended. Trials that DIR already holds
    are not repeated, so an interrupted run continues where it stopped. Exit code 1 if a trial
    failed.
    """
    from kohort.lab.trial import Trial

    run = running.Run(out, minutes, again, settings or (), bootstrap)
    if scenario == "report":
        running.tell(out, as_json)
        return 0
    if scenario == "table":
        rows = running.rows_named(row)
        undone = run.rows(rows, broker or "kohort,kafka", repeat)
        running.tell_bars(rows, out, as_json)
        return 1 if undone else 0
    first = Trial(
        scenario="", broker="", client="", protocol="", members=members, partitions=partitions, tick_ms=tick_ms,
        restore_ms=restore_ms, state_keys=state_keys, store=store, commit_ms=commit_ms, gap_ms=gap_ms,
        out_of_step=out_of_step, settle_s=settle_s, rest_ms=rest_ms, warmup=warmup, num_standby=num_standby,
        max_warmups=max_warmup_replicas, acceptable_lag=acceptable_recovery_lag,
        probing_ms=probing_rebalance_interval_ms,
    )  # fmt: skip
    undone = run.combinations(first, scenario, client, protocol, broker or "kohort,kohort-hold-off", repeat)
    running.tell(out, as_json)
    return 1 if undone else 0
