"""Implementation of `kohort lab`: plan and run trials, and report the stored ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cli.options import read_pairs
from kohort.cli.output import remark, say
from kohort.errors import ConfigError, KohortError

if TYPE_CHECKING:
    from rich.table import Table

    from kohort.lab.bars import Row
    from kohort.lab.experiment import Brokers
    from kohort.lab.trial import Outcome, Trial


@dataclass(frozen=True, slots=True)
class Run:
    """Options of a run: output directory, time limit and brokers."""

    out: Path
    minutes: float
    again: bool
    settings: Iterable[str]
    bootstrap: str | None

    def combinations(
        self, first: Trial, scenarios: str, clients: str, protocols: str, brokers: str, repetitions: int
    ) -> int:
        """Run all requested combinations that are possible; return the number of trials that were not run."""
        from kohort.lab.experiment import plan
        from kohort.lab.member import CLIENTS
        from kohort.lab.order import PROTOCOLS
        from kohort.lab.scenarios import SCENARIOS
        from kohort.lab.trial import STORES

        _chosen("store", first.store, STORES)
        if first.store == "rocksdb" and not first.state_keys:
            raise ConfigError("--store rocksdb needs a changelog to be restored from: give --state-keys, too.")
        trials = plan(
            first,
            _chosen("scenario", scenarios, SCENARIOS),
            _chosen("client", clients, CLIENTS),
            _chosen("protocol", protocols, PROTOCOLS),
            self._brokers(brokers),
            repetitions,
        )
        if not trials:
            raise ConfigError(
                "None of that can be run: deploy needs the consumer protocol and Kohort, aiokafka is eager; warm-up"
                " needs the client kohort, and the consumer protocol with it a broker of Kohort; RocksDB is not there"
                " for the client java."
            )
        return self._run(trials)

    def rows(self, rows: Sequence[Row], brokers: str, repetitions: int) -> int:
        """Run the experiments of these rows; return the number of trials that were not run."""
        for row in rows:
            remark(f"{row.name}: {row.what}; about {row.minutes * repetitions:g} min on both brokers")
        chosen = self._brokers(brokers)
        return self._run([trial for row in rows for trial in row.trials(chosen, repetitions)])

    def _brokers(self, names: str) -> list[str]:
        from kohort.lab.brokers import BROKERS, GIVEN

        return [GIVEN] if self.bootstrap else _chosen("broker", names, BROKERS)

    def _run(self, trials: Sequence[Trial]) -> int:
        from kohort.lab.experiment import path_of, run

        if self.again:
            for trial in trials:
                path_of(trial, self.out).unlink(missing_ok=True)
        return run(trials, self.out, self.minutes, self._started(), remark)

    def _started(self) -> Brokers:
        """Return, by name, a function that starts the broker with the user's settings."""
        from kohort.lab.brokers import BROKERS, GIVEN, LabBroker

        pairs, given = read_pairs("--set", self.settings), self.bootstrap
        if given is not None:
            return {GIVEN: lambda: nullcontext(LabBroker(given))}
        return {name: partial(start, pairs) for name, start in BROKERS.items()}


def rows_named(names: str | None) -> list[Row]:
    """Return the named rows of the table, or all rows."""
    from kohort.lab.bars import ROWS

    known = {row.name: row for row in ROWS}
    return [known[name] for name in _chosen("row", names, known)] if names else list(ROWS)


def tell(out: Path, as_json: bool) -> None:
    """Print the summaries of all stored trials, and write the report."""
    from kohort.lab.summary import summarise

    kept = _kept(out)
    summaries = summarise(kept)
    if as_json:
        say(json.dumps([asdict(one) for one in summaries]))
        return
    from kohort.lab.table import summary_table

    _print(lambda width: summary_table(summaries, width))


def tell_bars(rows: Sequence[Row], out: Path, as_json: bool) -> None:
    """Print the target figures and the measured ones, and write the report."""
    from kohort.lab.bars import reached
    from kohort.lab.summary import summarise

    found = reached(rows, summarise(_kept(out)))
    if as_json:
        told = [{"row": one.row.name, **asdict(one.bar), "kafka_ms": one.kafka_ms, "kohort_ms": one.kohort_ms,
                 "verdict": one.verdict} for one in found]  # fmt: skip
        say(json.dumps(told))
        return
    from kohort.lab.table import bars_table

    _print(lambda width: bars_table(found))


def _kept(out: Path) -> list[Outcome]:
    """Return all stored trials, after writing a report of them. Raises ConfigError if there are none."""
    from kohort.lab.experiment import outcomes

    kept = outcomes(out)
    if not kept:
        raise ConfigError(f"There is nothing to report in {out}: run a scenario first, as in kohort lab bounce.")
    _report(kept, out)
    return kept


def _report(kept: Sequence[Outcome], out: Path) -> None:
    """Write the report page and the Parquet files, or print which dependency is missing."""
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


def _print(table: Callable[[int], Table]) -> None:
    from rich.console import Console

    from kohort.lab.table import WIDE

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    console.print(table(console.width))
