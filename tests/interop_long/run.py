"""Run the suites that others wrote against a broker, ours or Apache Kafka.

`python -m tests.interop_long.run [--broker kafka] [SUITE [TEST...]]`. Ends with 1 when a test did
not pass of which `expected.py` says nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

from tests.interop_long import kafka_python, librdkafka, node_rdkafka
from tests.interop_long.expected import EXPECTED
from tests.interop_long.suite import Outcome, Unavailable, Verdict, markdown

SUITES: dict[str, Callable[[str, Sequence[str]], Iterator[Outcome]]] = {
    kafka_python.NAME: kafka_python.run,
    librdkafka.NAME: librdkafka.run,
    node_rdkafka.NAME: node_rdkafka.run,
}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--broker", choices=("kohort", "kafka"), default="kohort", help="whose broker is asked")
    arguments.add_argument("suite", nargs="?", choices=sorted(SUITES), help="default: all")
    arguments.add_argument("test", nargs="*", help="numbers or names; default: all of the suite")
    given = arguments.parse_args()
    chosen = [given.suite] if given.suite else list(SUITES)
    unexpected = 0
    for suite in chosen:
        try:
            unexpected += _run(suite, given.broker, given.test)
        except Unavailable as missing:
            print(f"{suite}: {missing}", file=sys.stderr)
            return 2
    return 1 if unexpected else 0


def _run(suite: str, broker: str, tests: Sequence[str]) -> int:
    """Print each result as it arrives and the table at the end; return the number of unexpected results."""
    outcomes: list[Outcome] = []
    reasons = EXPECTED[suite]
    unexpected = 0
    for outcome in SUITES[suite](broker, tests):
        outcomes.append(outcome)
        passed = outcome.verdict is Verdict.PASSED
        surprise = not passed and outcome.name not in reasons
        unexpected += surprise
        ending = f"  {outcome.detail}" if outcome.detail else ""
        mark = "  <-- not expected" if surprise else ""
        print(f"{outcome.name:<28} {outcome.verdict.value:<10} {outcome.seconds:6.1f} s{mark}{ending}", flush=True)
    print(f"\n## {suite} against {broker}\n\n{markdown(outcomes, reasons)}\n")
    return unexpected


if __name__ == "__main__":
    sys.exit(main())
