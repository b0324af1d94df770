"""What holds for every decoder and any bytes: no exception but the declared one, little memory, little time.

A `Target` is one decoder with real input to begin from; `check` runs it once and says which rule was broken.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from random import Random

from kohort.wire.codec import Struct

BYTES_FACTOR = 4
VALUE_BYTES = 256
"""What a value may cost as a Python object, over the bytes that it came in: an int32 of 4 bytes is one of 28 and a
pointer, a struct of 3 bytes one of 150 with its empty lists. The factor of 4 is for what the bytes themselves become.
"""
FLOOR_BYTES = 64 * 1024
"""What any call may take: the text of an error, a traceback, an entry of a cache."""
MOST_SECONDS = 1.0


def _as_it_is(data: bytes, dice: Random) -> bytes:
    return data


def _agrees(data: bytes, value: object) -> None:
    pass


def _none(data: bytes) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder. `run` returns what it made of the bytes, or raises one of `declared`."""

    name: str
    run: Callable[[bytes], object]
    declared: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]
    agrees: Callable[[bytes, object], None] = _agrees
    """More that must hold of what `run` returned, such as that it says the same again; its memory is not counted."""
    mend: Callable[[bytes, Random], bytes] = _as_it_is
    """Makes mutated bytes right where they would be refused before the decoder sees them, such as by a checksum."""
    grant: Callable[[bytes], int] = _none
    """Memory beyond the rule, in bytes: what compressed bytes may unpack to, pages of a size of their own."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that did not hold for some bytes."""

    target: str
    rule: str
    """`exception`, `memory` or `time`; `crash` or `hang` of a process that had to be replaced."""
    detail: str
    data: bytes

    @property
    def kind(self) -> str:
        """The same for two inputs that show the same fault."""
        return f"{self.target} {self.rule} {self.detail if self.rule == 'exception' else ''}".strip()

    def __str__(self) -> str:
        return f"{self.target}: {self.rule}: {self.detail} ({len(self.data)} bytes: {self.data[:200].hex()})"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended: two inputs with equal `way` were taken the same way, as far as one sees from outside."""

    way: str
    broken: Broken | None = None
    value: object = None


def check(target: Target, data: bytes) -> Outcome:
    """Run once under the rules of exceptions and time. `way` names the raising line, or the type of the result."""
    began = time.thread_time()
    outcome = _run(target, data, target.agrees)
    took = time.thread_time() - began
    if took > MOST_SECONDS and outcome.broken is None:
        return Outcome(outcome.way, Broken(target.name, "time", f"{took:.1f} s", data))
    return outcome


def check_memory(target: Target, data: bytes) -> Outcome:
    """`check`, and the rule of memory: several times slower. What is compiled on first use should be by now."""
    outcome, peak = _traced(target, data)
    # Each value took a byte at least; the number of values in refused input is unknown.
    values = len(data) if outcome.value is None else count_values(outcome.value)
    most = FLOOR_BYTES + BYTES_FACTOR * len(data) + VALUE_BYTES * values + target.grant(data)
    if peak > most:
        # A cache may just have grown, which it does once in a thousand inputs: what counts is what each input costs.
        outcome, peak = _traced(target, data)
    if peak > most and outcome.broken is None:
        detail = f"{peak} bytes of memory for {len(data)} bytes with {values} values, {most} allowed"
        return Outcome(outcome.way, Broken(target.name, "memory", detail, data))
    return outcome


def _traced(target: Target, data: bytes) -> tuple[Outcome, int]:
    tracemalloc.start()
    try:
        outcome = _run(target, data, _agrees)
        return outcome, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def count_values(value: object) -> int:
    """How many values something decoded consists of, itself included."""
    if isinstance(value, Struct):
        return 1 + sum(count_values(getattr(value, field.name)) for field in value.FIELDS)
    if is_dataclass(value) and not isinstance(value, type):
        return 1 + sum(count_values(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, dict):
        return 1 + sum(count_values(key) + count_values(nested) for key, nested in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return 1 + sum(map(count_values, value))
    return 1


def _run(target: Target, data: bytes, agrees: Callable[[bytes, object], None]) -> Outcome:
    try:
        value = target.run(data)
        agrees(data, value)
    except target.declared as error:
        return Outcome(f"{target.name} {_line(error)}")
    except MemoryError as error:
        return Outcome("memory", Broken(target.name, "memory", repr(error), data))
    except Exception as error:  # noqa: BLE001
        detail = f"{type(error).__name__} at {_line(error)}"
        return Outcome(f"{target.name} {detail}", Broken(target.name, "exception", detail, data))
    return Outcome(f"{target.name} {type(value).__name__}", value=value)


def _line(error: BaseException) -> str:
    """Where it was raised; compiled decoders are named like `<decode MetadataRequest v1>`."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
