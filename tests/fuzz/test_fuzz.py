"""Seconds of fuzzing at every change; `make fuzz` is the same for as long as one likes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutate import mutated
from tests.fuzz.rules import Target, check, check_memory
from tests.fuzz.run import fuzz
from tests.fuzz.shrink import shrunk
from tests.fuzz.targets import TARGETS

FOUND = sorted((Path(__file__).parent / "found").glob("*/*.bin"))
EXAMPLES = {"data-directory": 60, "settings": 60}
"""Where one takes a millisecond; of the others there are 400."""

each = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@each
def test_real_input_is_taken_and_keeps_the_rules(target: Target) -> None:
    seeds = target.seeds()
    taken = 0
    for data in seeds:
        outcome = check(target, data)
        assert outcome.broken is None, str(outcome.broken)
        again = check_memory(target, data)
        assert again.broken is None, str(again.broken)
        taken += outcome.value is not None
    # Not all: the relay also saw what scenes send to be refused, and a broker takes one batch at a time.
    assert taken > 0.3 * len(seeds)


@each
def test_mutated_input_keeps_the_rules(target: Target) -> None:
    seeds = target.seeds()
    for data in seeds[:: 1 + len(seeds) // 50]:
        check(target, data)  # what is compiled on first use is no part of the memory

    @settings(
        max_examples=EXAMPLES.get(target.name, 400),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True), st.integers(0, len(seeds) - 1))
    def holds(dice: Random, which: int) -> None:
        data = target.mend(mutated(seeds[which], dice, seeds), dice)
        for run in (check, check_memory):
            broken = run(target, data).broken
            assert broken is None, f"{broken} {shrunk(target, broken).hex()}"

    holds()


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_inputs_found_once_keep_the_rules(path: Path) -> None:
    target, data = TARGETS[path.parent.name], path.read_bytes()
    for run in (check, check_memory):
        broken = run(target, data).broken
        assert broken is None, str(broken)


def _target(run: object) -> Target:
    return Target("planted", run, (ValueError,), lambda: [b"seed"])  # type: ignore[arg-type]


def test_an_exception_that_is_not_declared_breaks_a_rule() -> None:
    broken = check(_target(lambda data: data[4]), b"four").broken
    assert broken is not None and broken.rule == "exception" and "IndexError" in broken.detail
    assert check(_target(lambda data: int(data)), b"no number").broken is None


def test_memory_that_a_length_claims_breaks_a_rule() -> None:
    broken = check_memory(_target(lambda data: bytearray(int(data))), b"1000000").broken
    assert broken is not None and broken.rule == "memory"
    assert check_memory(_target(lambda data: bytearray(int(data))), b"1000").broken is None


def test_a_second_breaks_a_rule() -> None:
    def squares(data: bytes) -> int:
        total = 0
        for number in range(int(data)):
            total += number * number
        return total

    broken = check(_target(squares), b"50000000").broken
    assert broken is not None and broken.rule == "time"


def test_a_fault_is_made_smaller() -> None:
    target = _target(lambda data: data.index(b"!") and data[1_000])
    broken = check(target, b"x" * 400 + b"!" + b"y" * 400).broken
    assert broken is not None
    assert shrunk(target, broken) == b"x!"


def test_a_worker_that_dies_or_hangs_leaves_its_input_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(data: bytes) -> None:
        if b"!" in data:
            os.kill(os.getpid(), signal.SIGKILL)

    def hangs(data: bytes) -> None:
        while b"!" in data:
            pass

    monkeypatch.setattr("tests.fuzz.run.HANGS_AFTER_S", 0.5)
    monkeypatch.setattr("tests.fuzz.run.SLICE_S", 0.1)
    for rule, decoder in (("crash", dies), ("hang", hangs)):
        planted = Target("planted", decoder, (), lambda: [b"a" * 40, b"b" * 40])
        monkeypatch.setitem(TARGETS, "planted", planted)
        tally = fuzz(["planted"], minutes=1.0, runs=1e6, faults=1, jobs=1, seed=1, keep=tmp_path)
        assert {broken.rule for broken in tally.broken.values()} == {rule}
        [path] = (tmp_path / "planted").glob(f"{rule}-*.bin")
        assert b"!" in path.read_bytes()
