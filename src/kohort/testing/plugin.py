"""The pytest plugin: fixtures that give tests a Kafka. Their docstrings are what `pytest --fixtures` shows.

Nothing is imported for tests that do not use it: every run of pytest loads this module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.testing.broker import Broker, Cluster
    from kohort.testing.workspace import Workspace

    MakeBroker = Callable[..., Broker | Cluster]

_MARKER = (
    "kohort(partitions=None, protocol=None, config=None, brokers=None): what the `kohort` fixture of a test shall be: "
    "the default number of partitions of its topics; the only group protocol that the broker serves ('classic' or "
    "'consumer'); broker settings by Kafka's names; the number of brokers. All but `partitions` give the test brokers "
    "of its own."
)
_REBALANCES = "kohort_rebalances"
_workspaces = pytest.StashKey[list[Any]]()
_made = pytest.StashKey[list[Any]]()
"""The brokers that a test started by `kohort_factory`."""
_shared = pytest.StashKey[Any]()
"""The broker that all tests share, once it runs."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _import_as_usual(pluginmanager)
    group = parser.getgroup("kohort", "Kafka brokers for tests")
    group.addoption(
        "--kohort-listen",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="Address of the brokers that tests share; port 0 takes a free one (default: 127.0.0.1:0).",
    )
    parser.addini("kohort_config", "Broker settings by Kafka's names, one NAME=VALUE per line.", "linelist", [])
    parser.addini("kohort_partitions", "Number of partitions of topics that do not say it.", "string", "1")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


def _import_as_usual(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from compiling the assertions of this distribution anew.

    It does so for all packages of a distribution that has a plugin. That takes seconds where compiled modules cannot be
    kept, as in a fresh container.
    """
    marked = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= {"kohort", "pyspark_kohort"}


# Fixtures


@pytest.fixture(scope="session")
def _kohort_shared(pytestconfig: pytest.Config) -> Iterator[Broker]:
    from kohort.testing.broker import Broker

    host, port = _listen(pytestconfig)
    with Broker(settings=_settings(pytestconfig), host=host, port=port) as broker:
        pytestconfig.stash[_shared] = broker
        yield broker
        del pytestconfig.stash[_shared]


@pytest.fixture(scope="session")
def _kohort_shared_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    from kohort.testing.broker import Cluster

    with Cluster(3, settings=_settings(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kohort_broker(_kohort_shared: Broker) -> Broker:
    """The broker that all tests of this process share (`kohort.testing.Broker`)."""
    return _kohort_shared


@pytest.fixture
def kohort_factory(request: pytest.FixtureRequest) -> Iterator[MakeBroker]:
    """Starts brokers for this test: `kohort_factory(brokers=1, settings={...}, topics={...}, users={...})`.

    The arguments are those of `kohort.testing.Broker`, or of `Cluster` if `brokers` is given. They stop with the test.
    """
    from kohort.testing.broker import Broker, Cluster

    stack = contextlib.ExitStack()

    def make(
        brokers: int | None = None, *, settings: dict[str, str] | None = None, **arguments: Any
    ) -> Broker | Cluster:
        settings = {**_settings(request.config), **(settings or {})}
        made: Broker | Cluster
        if brokers is None:
            made = Broker(settings=settings, **arguments)
        else:
            made = Cluster(brokers, settings=settings, **arguments)
        request.node.stash.setdefault(_made, []).append(stack.enter_context(made))
        return made

    with stack:
        yield make


@pytest.fixture
def kohort(request: pytest.FixtureRequest) -> Iterator[Workspace]:
    """A Kafka for this test: its own topics and groups on a broker that is ready (`kohort.testing.Workspace`).

    `kohort.bootstrap_servers` is for clients, `kohort.topic("orders", 3)` creates a topic, `kohort.group()` is a group
    ID that can wait for members, assignments, commits and rebalances.
    """
    asked = _asked(request)
    if asked.own:
        make = request.getfixturevalue("kohort_factory")
        broker = make(asked.brokers, settings=asked.settings)
    else:
        broker = request.getfixturevalue("_kohort_shared")
    yield from _workspace(request, broker, asked)


@pytest.fixture
def kohort_cluster(request: pytest.FixtureRequest) -> Iterator[Workspace]:
    """As `kohort`, on three brokers, or on as many as the marker `kohort(brokers=n)` says."""
    asked = _asked(request)
    if asked.own:
        make = request.getfixturevalue("kohort_factory")
        cluster = make(asked.brokers or 3, settings=asked.settings)
    else:
        cluster = request.getfixturevalue("_kohort_shared_cluster")
    yield from _workspace(request, cluster, asked)


def _workspace(request: pytest.FixtureRequest, broker: Broker | Cluster, asked: _Asked) -> Iterator[Workspace]:
    from kohort.testing.workspace import Workspace

    workspace = Workspace(broker, request.node.name, partitions=asked.partitions)
    request.node.stash.setdefault(_workspaces, []).append(workspace)
    yield workspace
    request.node.user_properties.append((_REBALANCES, len(workspace.rebalances)))
    try:
        workspace.check()  # what clients did that other fixtures closed after the test
    finally:
        workspace.close()


# What a test asks for


class _Asked:
    """The marker and the ini options of one test."""

    def __init__(
        self,
        config: pytest.Config,
        partitions: int | None = None,
        protocol: str | None = None,
        settings: dict[str, str] | None = None,
        brokers: int | None = None,
    ) -> None:
        self.partitions = _number(config) if partitions is None else partitions
        self.brokers = brokers
        self.settings = {name: str(value) for name, value in (settings or {}).items()}
        if protocol is not None:
            self.settings["group.coordinator.rebalance.protocols"] = protocol
        self.own = bool(self.settings) or brokers is not None


def _asked(request: pytest.FixtureRequest) -> _Asked:
    merged: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kohort"))):
        known = {"partitions", "protocol", "config", "brokers"}
        if marker.args or not marker.kwargs.keys() <= known:
            raise pytest.UsageError(f"@pytest.mark.kohort takes only the keywords {', '.join(sorted(known))}.")
        merged |= marker.kwargs
    settings = merged.pop("config", None)
    return _Asked(request.config, settings=settings, **merged)


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for line in config.getini("kohort_config"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"kohort_config has the line {line!r}, which is not NAME=VALUE.")
        settings[name.strip()] = value.strip()
    return settings


def _number(config: pytest.Config) -> int:
    text = config.getini("kohort_partitions")
    if not text.isdigit() or int(text) < 1:
        raise pytest.UsageError(f"kohort_partitions is {text!r}, but must be a number from 1 on.")
    return int(text)


def _listen(config: pytest.Config) -> tuple[str, int]:
    text = config.getoption("--kohort-listen")
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise pytest.UsageError(f"--kohort-listen is {text!r}, but must be HOST:PORT.")
    worker = getattr(config, "workerinput", None)
    if int(port) and worker is not None:  # the workers of pytest-xdist have a broker each
        return host, int(port) + int(worker["workerid"].removeprefix("gw"))
    return host, int(port)


# Verdict and reports


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    __tracebackhide__ = True
    result = yield
    for workspace in item.stash.get(_workspaces, ()):
        workspace.check()
    for broker in item.stash.get(_made, ()):
        if broker.is_running:  # otherwise the end of the fixture gives the verdict
            broker.check()
    _check_shared(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    __tracebackhide__ = True
    result = yield
    _check_shared(item)  # what clients did that fixtures closed after the test
    return result


def _check_shared(item: pytest.Item) -> None:
    """Blame a test that uses the shared broker without `kohort`, not the next one that has it."""
    __tracebackhide__ = True
    broker = item.config.stash.get(_shared, None)
    if broker is not None and "_kohort_shared" in getattr(item, "fixturenames", ()):
        from kohort.testing.workspace import check

        check(broker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for workspace in item.stash.get(_workspaces, ()):
            from kohort.testing.failure_report import sections

            report.sections += sections(workspace, item.config)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = [
        value
        for reports in terminalreporter.stats.values()
        for each in reports
        for name, value in getattr(each, "user_properties", ())
        if name == _REBALANCES and getattr(each, "when", None) == "teardown"
    ]
    if sum(counts):
        terminalreporter.write_line(f"kohort: {sum(counts)} rebalances in {len(counts)} tests")
