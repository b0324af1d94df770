"""Fixtures of these examples, beside `kohort`, which is the plugin's."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kohort.testing import Fault, Invariant, SequenceAudit, SequenceNumbers, Topic, VerdictError, Workspace
from kohort.wire.batches import Record

from .stubs import Client, ConsumerMember, Member

Verdict = Callable[[], list[tuple[str, Fault, Invariant]]]
RunOldClient = Callable[[str, str, Topic], None]
_PROGRAMS = Path(__file__).parent / "old_clients"


class Processed:
    """What an application has done with the records of the first partition, as the kit's audit sees it."""

    def __init__(self, kohort: Workspace) -> None:
        self.audit = SequenceAudit(kohort.group())
        self._numbers = SequenceNumbers("shop")

    def produce(self, topic: Topic, count: int) -> None:
        """Append records with the next numbers, one batch each."""
        for _ in range(count):
            topic.produce("x", partition=0, numbers=self._numbers)

    def by(self, member: Client, *records: Record) -> None:
        """Record that the application, at this member, has processed these records."""
        for record in records:
            headers = [(str(name), value) for name, value in record.headers]
            self.audit.processed(member.client_id, member.topics[0], 0, record.offset, headers)

    def findings(self) -> list[tuple[str, int, int]]:
        """Return what is wrong, with the first and last number of the records: skipped, read twice, reordered..."""
        return [(each.kind.value, each.first, each.last) for each in self.audit.findings(self._numbers)]


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


@pytest.fixture
def processed(kohort: Workspace) -> Iterator[Processed]:
    """Tell an audit of the kit what the application does with the records."""
    processed = Processed(kohort)
    kohort.broker.observe(processed.audit.observe)
    yield processed
    kohort.broker.unobserve(processed.audit.observe)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests with the marker `long` out, unless `-m` chooses them or their names are given."""
    named = any("::" in argument for argument in config.args)
    if not named and not config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("long") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Install a release of a client into an environment of its own, once, and return its Python."""
    made: dict[str, Path] = {}

    def python(release: str) -> Path:
        if release not in made:
            folder = tmp_path_factory.mktemp(release.partition("=")[0])
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            made[release] = folder / "bin" / "python"
            subprocess.run([made[release], "-m", "pip", "install", "-q", release], check=True)
        return made[release]

    return python


@pytest.fixture
def run_old_client(kohort: Workspace, pythons: Callable[[str], Path]) -> RunOldClient:
    """Run a program of the folder `old_clients` with a release of a client from PyPI, until the program ends."""

    def run(release: str, program: str, topic: Topic) -> None:
        options = [kohort.bootstrap_servers, topic, kohort.group(), f"{kohort.prefix}client"]
        subprocess.run([pythons(release), _PROGRAMS / program, *options], check=True, timeout=60)

    return run
