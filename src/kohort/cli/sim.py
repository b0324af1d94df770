"""`kohort sim`: simulate worlds from seeds, with faults, and check that the invariants hold in all of them."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.output import flush, print_line, print_note, print_text
from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.sim import Outcome, Plan
    from kohort.sim.runs import Report

_PROGRESS_EVERY_S = 5.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sim", epilog="Example: kohort sim --seed 17   or   kohort sim --minutes 2")(sim)


def sim(
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="Run one world, such as 17, 17.3 or t17, and print what happened.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="Run the world in this file.")] = None,
    shrink: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Reduce a failing world and write it to FILE.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Run random worlds for this many minutes (default: 2).")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds to run.")] = None,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Run small worlds with transactions; t17 is that of seed 17.")
    ] = False,
    first: Annotated[int | None, typer.Option(help="First seed (default: random).")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of cores to use (default: all).")] = None,
    totals: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add to the totals in FILE and skip the seeds that are in them."),
    ] = None,
    model: Annotated[int | None, typer.Option(metavar="DEPTH", help="Try every order of DEPTH events.")] = None,
) -> int:
    """Simulate brokers, members and faults in virtual time, and check all invariants after every event.

    The same seed gives the same world, byte for byte. With --minutes, a quarter of the worlds are
    variants of those that showed something new: 17.3 is the third variant of the world of seed 17.
    Exit code 1 if an invariant was violated: the seed, the faults, the last events and the
    invariant are printed, and `--shrink` reduces the world to a small case.
    """
    if seed is not None and plan is not None:
        raise ConfigError("Specify either --seed or --plan, not both.")
    if transactions and not (seed is None and plan is None and model is None):
        raise ConfigError("Specify --transactions only with --seeds or --minutes; --seed t17 runs one such world.")
    if model is not None:
        return _model(model)
    if seed is None and plan is None:
        return _run_many(first, seeds, minutes, jobs, totals, transactions=transactions)
    return _run_plan(seed, _plan(seed, plan), shrink)


def _plan(seed: str | None, path: Path | None) -> "Plan":
    from kohort.sim import load
    from kohort.sim.runs import plan_of

    if path is None:
        assert seed is not None
        try:
            return plan_of(seed)
        except ValueError:
            raise ConfigError(f"--seed {seed} names no world; give a number such as 17, or 17.3, or t17.") from None
    try:
        return load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{path} is not a plan of a simulation: {problem}.") from problem


def _run_plan(name: str | None, plan: "Plan", shrink: Path | None) -> int:
    from kohort.sim import World, dump
    from kohort.sim.runs import shrink as smaller

    outcome = World(plan).run()
    _tell(name or str(plan.seed), outcome)
    if outcome.violation is None:
        return 0
    if shrink is not None:
        small = smaller(
            plan, outcome.violation, on_progress=lambda plan: print_note(f"still fails with {len(plan.steps)} steps")
        )
        comment = "".join(f"# {line}\n" for line in str(outcome.violation).splitlines())
        shrink.write_text(comment + dump(small), encoding="utf-8")
        print_line(f"written: {shrink}, {len(small.steps)} steps and {len(small.members)} members")
    return 1


def _tell(name: str, outcome: "Outcome") -> None:
    plan = outcome.plan
    print_line(f"seed {name}: {len(plan.members)} members, {len(plan.steps)} steps, {plan.seconds:.0f} s of faults")
    if outcome.violation is not None:
        print_text(f"seed {name} violates {outcome.violation}")
    for step in plan.faults:
        print_line(f"  {step}")
    for line in outcome.history:
        print_line(line)
    print_line(f"{outcome.events:,} events, trace {outcome.trace:08x}")
    if outcome.violation is None:
        print_line("every invariant held")


def _model(depth: int) -> int:
    from kohort.sim import Violation
    from kohort.sim.model import explore

    for protocol in ("classic", "consumer"):
        try:
            for level, explored in enumerate(explore(protocol, depth), start=1):
                print_line(
                    f"{protocol}: {level} events deep, {explored.states:,} states after {explored.events:,} events"
                )
        except Violation as problem:
            print_text(f"{protocol}: {problem}")
            return 1
    return 0


def _run_many(
    first: int | None,
    seeds: int | None,
    minutes: float | None,
    jobs: int | None,
    totals: Path | None,
    *,
    transactions: bool,
) -> int:
    from kohort.sim.runs import Report, load_report, run_worlds, save_report

    seconds = None if seeds is not None and minutes is None else (2.0 if minutes is None else minutes) * 60
    first = time.time_ns() // 1_000_000_000 * 1_000 if first is None else first
    try:
        report = Report() if totals is None else load_report(totals)
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{totals} cannot be added to: {problem}.") from problem
    progress = _Progress(totals)
    try:
        run_worlds(first, seeds, seconds, progress.show, report=report, workers=jobs, transactions=transactions)
    finally:
        # Report also after Ctrl-C: the violations found so far are valid.
        if totals is not None:
            save_report(report, totals)
        for line in report.lines():
            print_line(line)
        for seed, violation in sorted(report.failed.items()):
            print_line(f"seed {seed} violates {violation.splitlines()[0][:300]}")
        flush()
    return 1 if report.failed else 0


class _Progress:
    """Progress lines after the first world and at intervals, and saved totals."""

    def __init__(self, totals: Path | None) -> None:
        self._totals = totals
        self._failed = 0
        self._next = time.monotonic()

    def show(self, report: "Report") -> None:
        """Report another finished seed, at intervals and at each new violation."""
        from kohort.sim.runs import save_report

        now = time.monotonic()
        if now < self._next and len(report.failed) == self._failed:
            return
        self._next, self._failed = now + _PROGRESS_EVERY_S, len(report.failed)
        print_note(
            f"{len(report.ran):,} worlds, {report.group_hours:,.1f} group-hours, {len(report.failed)} violations"
        )
        if self._totals is not None:
            save_report(report, self._totals)
