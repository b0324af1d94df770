"""Fixtures of these examples, beside `kohort`, which is the plugin's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from kohort.testing import Fault, Invariant, VerdictError, Workspace

from .stubs import ConsumerMember, Member

Verdict = Callable[[], list[tuple[str, Fault, Invariant]]]


@pytest.fixture
def classic(kohort: Workspace) -> Iterator[Callable[..., Member]]:
    """Create members of classic groups: `classic("a", topic)`. They are closed with the test.

    Their client IDs begin with the test's prefix: clients of other tests with the same ID would hide what they do.
    """
    with ExitStack() as stack:

        def create(client_id: str, *topics: Any, **options: Any) -> Member:
            return stack.enter_context(closing(Member(kohort, kohort.prefix + client_id, *topics, **options)))

        yield create


@pytest.fixture
def consumer(kohort: Workspace) -> Iterator[Callable[..., ConsumerMember]]:
    """Create members of consumer groups: `consumer("a", topic)`. They are closed with the test."""
    with ExitStack() as stack:

        def create(client_id: str, *topics: Any, **options: Any) -> ConsumerMember:
            return stack.enter_context(closing(ConsumerMember(kohort, kohort.prefix + client_id, *topics, **options)))

        yield create


@pytest.fixture
def verdict(kohort: Workspace) -> Verdict:
    """Return who broke what since the last call: client ID, side and invariant. Without it, the test would fail."""

    def taken() -> list[tuple[str, Fault, Invariant]]:
        try:
            kohort.broker.check()
        except VerdictError as error:
            own = [each for each in error.violations if each.group.startswith(kohort.prefix)]
            return [(each.client_id.removeprefix(kohort.prefix), each.fault, each.invariant) for each in own]
        return []

    return taken
