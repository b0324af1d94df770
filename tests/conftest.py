"""Fixtures that several packages' tests use: a broker of ours, and Apache Kafka."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kohort.lab.brokers import running_gateway
from tests.interop.broker import Broker
from tests.interop.kafka import ApacheKafka, Unavailable, jars, running_kafka
from tests.interop.kohort import KohortBroker, running_kohort
from tests.last_lines import LastLines
from tests.slow import slow_tests
from tests.spark_session import spark

__all__ = ["spark"]

# Other processes share the machine: how long an example takes says nothing about the code.
settings.register_profile("kohort", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kohort")

QUICK_CONSUMER_GROUPS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
"""A member of a consumer group learns what it should own at its next heartbeat, whose interval the broker sets."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        choices=("kohort", "kafka", "both", "kafka+gateway"),
        default="kohort",
        help="which broker the tests of clients run against (default: kohort)",
    )
    parser.addoption("--all", action="store_true", help="run the tests marked `long`, too")
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what is heard into tests/scenarios/*/*.txt, and the pictures of the web page into docs/images",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `any_broker` runs once for each that `--broker` names."""
    if "any_broker" in metafunc.fixturenames:
        kohort = pytest.param("kohort_broker", id="kohort")
        kafka = pytest.param("apache_kafka", id="kafka", marks=pytest.mark.kafka)
        gateway = pytest.param("kafka_behind_gateway", id="kafka+gateway", marks=pytest.mark.kafka)
        chosen = {"kohort": [kohort], "kafka": [kafka], "both": [kohort, kafka], "kafka+gateway": [gateway]}
        named = metafunc.config.getoption("--broker")
        metafunc.parametrize("any_broker", chosen[named], indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LastLines(), "last_lines")
    if sys.dont_write_bytecode and sys.pycache_prefix is None:
        share_compiled_modules(config)


def share_compiled_modules(config: pytest.Config) -> None:
    """Compile what the tests' programs import once for all of them where PYTHONDONTWRITEBYTECODE is set.

    Hundreds of programs are started, and each would spend half of its start on compiling the package.
    """
    place = tempfile.mkdtemp(prefix="kohort-compiled-")
    config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))
    os.environ["PYTHONPYCACHEPREFIX"] = place
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the tests in another order in each of several processes: what one compiles, the others read.

    In one order all would compile each file at the same time, which takes longer than to import it.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    root = session.config.rootpath
    files = sorted(root.glob("tests/**/test_*.py"))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in files[first:] + files[:first]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it reports what is wrong
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Leave the thousands of tests out of garbage collections, which would look through all of them each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    from tests.scheduling import Sharing

    return Sharing(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that run Apache Kafka, the long and the slow ones, unless the command line asks for them."""
    slow = slow_tests()
    for item in items:
        for mark in item.iter_markers("long"):
            assert mark.args, f"{item.nodeid}: `long` needs the reason"
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")
    if config.getoption("--broker") != "kohort":
        return
    asks_for_all, markers = config.getoption("--all"), config.getoption("markexpr")
    asks_for_long = asks_for_all or "long" in markers
    asks_for_slow = asks_for_all or markers or config.args != config.getini("testpaths")
    named = tuple(argument for argument in config.args if "::" in argument)

    def left_out(item: pytest.Item) -> bool:
        is_long = item.get_closest_marker("long") is not None
        if item.get_closest_marker("kafka") is not None:
            return not (is_long and asks_for_long)
        if item.get_closest_marker("slow") is not None and not asks_for_slow:
            return True
        return is_long and not asks_for_long and not item.nodeid.startswith(named)

    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]


@pytest.fixture
def remark(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say under what conditions a test passed, where these weaken it; the run's last lines repeat it."""
    return lambda text: request.node.user_properties.append(("remark", text))


@pytest.fixture(scope="session")
def any_broker(request: pytest.FixtureRequest) -> Broker:
    """The broker that this run of the test is about, known by its address alone."""
    found: Broker = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def apache_kafka(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    """An Apache Kafka broker, one per test process; skips where it cannot run. Mark its tests `kafka`."""
    need_jars(request.config)
    with running_kafka(QUICK_CONSUMER_GROUPS) as kafka:
        yield kafka


@dataclass(frozen=True)
class BehindGateway:
    """Apache Kafka as clients see it through a gateway."""

    bootstrap: str
    pid: int
    """Process of the gateway."""


@pytest.fixture(scope="session")
def kafka_behind_gateway(apache_kafka: ApacheKafka) -> Iterator[BehindGateway]:
    """`apache_kafka` through `kohort gateway`."""
    with running_gateway(apache_kafka.bootstrap) as (address, process):
        yield BehindGateway(address, process.pid)


@pytest.fixture(scope="session")
def authorized_kafka_behind_gateway(authorized_kafka: ApacheKafka) -> Iterator[BehindGateway]:
    """`authorized_kafka` through `kohort gateway`."""
    with running_gateway(authorized_kafka.bootstrap) as (address, process):
        yield BehindGateway(address, process.pid)


@pytest.fixture(scope="session")
def kafka_tools(request: pytest.FixtureRequest) -> None:
    """The Java console tools; skips where they cannot run."""
    need_jars(request.config)


# Tests start many groups, and each would wait 3 s for members that do not come. Tests that say when their records were
# made would lose them to retention in a run of more than five minutes.
_QUICK = {"group_initial_rebalance_delay_ms": "0", "log_retention_ms": "-1"} | {
    name.replace(".", "_"): value for name, value in QUICK_CONSUMER_GROUPS.items()
}


@pytest.fixture(scope="session")
def kohort_broker() -> Iterator[KohortBroker]:
    """`kohort broker --memory` in a process of its own, one per test process."""
    with running_kohort(**_QUICK) as broker:
        yield broker


@pytest.fixture(scope="session")
def plain_kohort_broker() -> Iterator[KohortBroker]:
    """As `kohort_broker`, but a heartbeat is answered at once, as by Kafka: for peers that wait for each answer."""
    with running_kohort(group_heartbeat_hold_ms="0", **_QUICK) as broker:
        yield broker


@pytest.fixture
def plain_broker(any_broker: Broker, request: pytest.FixtureRequest) -> Broker:
    """The broker that this run of the test is about, our own as `plain_kohort_broker`."""
    if not isinstance(any_broker, KohortBroker):
        return any_broker
    found: Broker = request.getfixturevalue("plain_kohort_broker")
    return found


_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Everybody who connects without authentication may do everything, such as to change ACLs."""


@pytest.fixture(scope="session")
def authorized_kohort() -> Iterator[KohortBroker]:
    """A broker of ours that has an authorizer."""
    with running_kohort(**_QUICK, **{name.replace(".", "_"): value for name, value in _AUTHORIZER.items()}) as broker:
        yield broker


@pytest.fixture(scope="session")
def authorized_kafka(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    """Apache Kafka with an authorizer. Mark its tests `kafka`."""
    need_jars(request.config)
    with running_kafka({**QUICK_CONSUMER_GROUPS, **_AUTHORIZER}) as kafka:
        yield kafka


@pytest.fixture
def any_authorized(any_broker: Broker, request: pytest.FixtureRequest) -> Broker:
    """A broker with an authorizer, of the kind that this run of the test is about."""
    name = "authorized_kohort" if isinstance(any_broker, KohortBroker) else "authorized_kafka"
    if isinstance(any_broker, BehindGateway):
        name = "authorized_kafka_behind_gateway"
    found: Broker = request.getfixturevalue(name)
    return found


def need_jars(config: pytest.Config) -> None:
    """Skip without Apache Kafka's jars; fail when the run was asked to use them."""
    try:
        jars()
    except Unavailable as missing:
        if config.getoption("--broker") == "kohort":
            pytest.skip(str(missing))
        pytest.fail(str(missing))
