"""Plant small bugs in a package and count what its tests notice: `make mutants PACKAGE=coordinator COUNT=200`, or
`python -m tests.mutation.run coordinator --count 200 [--seed N] [--only PATTERN] [--all]`.

Prints each survivor as FILE:LINE FUNCTION: BEFORE -> AFTER; a survivor needs a test, or its code is not needed, or the
mutant changes nothing (then it belongs into `equivalent.txt` with the reason). docs/mutation.md has the scores.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.session import MutationSession, Verdict

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.txt"


@dataclass(frozen=True, slots=True)
class Package:
    """The mutated source, and the tests that must notice."""

    sources: tuple[str, ...]
    """Patterns below `src`."""
    tests: tuple[str, ...]


PACKAGES = {
    "coordinator": Package(
        ("kohort/coordinator/**/*.py",),
        (
            "tests/coordinator",
            "tests/scenarios/test_scenarios.py",
            "tests/assignor",
            "tests/member/test_weights.py",
            "tests/member/test_computing.py",
        ),
    ),
    "requests": Package(("kohort/requests/*.py",), ("tests/requests", "tests/client/consume/test_fetch_session.py")),
    "member": Package(("kohort/member/**/*.py",), ("tests/member",)),
    "client": Package(("kohort/client/**/*.py",), ("tests/client", "tests/member")),
    "broker": Package(
        (
            *(f"kohort/broker/{room}/*.py" for room in ("groups", "fetch", "net", "logs", "transactions")),
            "kohort/broker/apis/dispatch.py",
            "kohort/broker/apis/fetch.py",
            "kohort/broker/apis/transactional_produce.py",
            "kohort/broker/apis/transactions.py",
            "kohort/broker/apis/txn_offset_commit.py",
            "kohort/broker/config/features.py",
        ),
        ("tests/broker",),
    ),
    "spark": Package(
        tuple(
            f"pyspark_kohort/{name}.py"
            for name in ("member/ledger", "member/query_membership", "source/plan", "sinks/fence")
        ),
        ("tests/spark",),
    ),
    "watch": Package(
        tuple(f"kohort/watch/{room}*.py" for room in ("", "findings/", "metrics/", "otlp/", "webhooks/")),
        # Without the tests that start a browser, brokers or processes.
        ("tests/watch/metrics", "tests/watch/webhooks", *sorted(map(str, (ROOT / "tests/watch").glob("test_*.py")))),
    ),
    "analytics": Package(("kohort/analytics/timelines.py",), ("tests/analytics",)),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if every mutant was noticed, 1 if some survived, 2 if the tests fail by themselves."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description=__doc__)
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--count", type=int, default=100, help="number of mutants, drawn at random (default: 100)")
    parser.add_argument("--all", action="store_true", help="every mutant of the package")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (default: 0)")
    parser.add_argument("--only", default="", help="text that a mutant's file or function contains")
    parser.add_argument("--tests", nargs="*", help="tests to run instead of the package's")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants tried at a time")
    parser.add_argument("--budget", type=float, default=20.0, help="longest run of one mutant's tests, in seconds")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    package = PACKAGES[options.package]
    found = [mutant for mutant in _mutants_of(package) if options.only in f"{mutant.path} {mutant.function}"]
    equivalent = equivalent_mutants()
    drawn = [mutant for mutant in found if signature(mutant) not in equivalent]
    if not options.all:
        Random(options.seed).shuffle(drawn)
        drawn = drawn[: options.count]
    print(f"{options.package}: {len(drawn)} of {len(found)} mutants, seed {options.seed}", flush=True)
    return _tried(drawn, package, options)


def _tried(drawn: Sequence[Mutant], package: Package, options: argparse.Namespace) -> int:
    began = time.monotonic()
    verdicts: list[Verdict] = []

    def report(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if verdict.killed_by is None:
            print(f"survived {verdict.mutant}", file=out, flush=True)
        if len(verdicts) % 20 == 0:
            print(f"{len(verdicts)} of {len(drawn)}", file=out, flush=True)

    with tempfile.TemporaryDirectory(prefix="kohort-mutants-") as folder, os.fdopen(os.dup(1), "w") as out:
        os.environ["KOHORT_MUTATION_DIRECTORY"] = folder
        session = MutationSession(drawn, workers=options.workers, budget_s=options.budget, report=report)
        tests = options.tests or package.tests
        pytest.main([*tests, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=no"], plugins=[session])
    if session.problem:
        print(session.problem, file=sys.stderr)
        return 2
    applied = [verdict for verdict in verdicts if verdict.killed_by != "not applicable"]
    killed = sum(verdict.killed_by is not None for verdict in applied)
    print(f"{options.package}: {killed} of {len(applied)} noticed ({100 * killed / max(1, len(applied)):.0f} %), "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip
    return 0 if killed == len(applied) else 1


def _mutants_of(package: Package) -> Iterator[Mutant]:
    paths = sorted({path for pattern in package.sources for path in Path("src").glob(pattern)})
    for path in paths:
        yield from mutants(path)


def signature(mutant: Mutant) -> str:
    """Return the name of a mutant in `equivalent.txt`: without its line number, which changes above it move."""
    return f"{mutant.path} {mutant.function}: {mutant.before}  ->  {mutant.after}"


def equivalent_mutants() -> set[str]:
    """Mutants that change nothing; each line is `MUTANT  # REASON`."""
    if not EQUIVALENT.exists():
        return set()
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.partition("  # ")[0].strip() for line in lines if line.strip() and not line.startswith("#")}


if __name__ == "__main__":
    sys.exit(main())
