"""The garbage collector is off while at least one part of the broker needs that, and is on again afterwards."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kohort.broker.garbage_collection import without_collector


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_it_is_back_when_the_last_is_done() -> None:
    first, second = without_collector(), without_collector()
    first.__enter__()
    assert not gc.isenabled()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_it_is_back_after_an_error() -> None:
    with pytest.raises(KeyError), without_collector():
        raise KeyError
    assert gc.isenabled()


def test_a_process_that_disabled_the_collector_keeps_it_disabled() -> None:
    gc.disable()
    with without_collector():
        pass
    assert not gc.isenabled()


def test_many_new_objects_are_frozen_and_freed_when_unreferenced() -> None:
    class Made:
        pass

    frozen = gc.get_freeze_count()
    with without_collector():
        made = [Made() for _ in range(200_000)]
    assert gc.get_freeze_count() - frozen >= 200_000
    reference = weakref.ref(made[0])
    del made
    assert reference() is None


def test_little_is_left_to_the_collector() -> None:
    frozen = gc.get_freeze_count()
    with without_collector():
        made = [[] for _ in range(1000)]  # type: ignore[var-annotated]
    assert (gc.get_freeze_count(), len(made)) == (frozen, 1000)
