"""Rules over the source itself, the ones that ruff and import-linter do not know.

Each rule takes a parsed file and yields what breaks it; a table of small sources proves that each can fail.
"""

from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Source:
    """A file, its path from the root, its text; parsed when a rule asks."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def lines(self) -> Iterator[tuple[int, str]]:
        return enumerate(self.text.splitlines(), start=1)

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    def within(self, *prefixes: str) -> bool:
        return any(self.path == prefix or self.path.startswith(prefix) for prefix in prefixes)


TYPE_IGNORE = "type: " + "ignore"
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")

CORE = (
    "src/kohort/wire/",
    "src/kohort/assignor/",
    "src/kohort/coordinator/",
    "src/kohort/member/",
    "src/kohort/requests/",
    "src/kohort/security/",
    "src/kohort/telemetry/",
    "src/kohort/errors.py",
    "src/kohort/group_events.py",
)
# A pure core gets these from its caller: the time, ids, randomness, sockets, threads, files, the environment.
IMPURE = frozenset(
    {
        *("asyncio", "concurrent", "multiprocessing", "queue", "subprocess", "threading", "uvloop"),
        *("datetime", "time", "random", "secrets", "uuid"),
        *("os", "pathlib", "select", "selectors", "signal", "socket", "ssl", "tempfile"),
        "logging",
    }
)
# Names that say nothing about what a thing is.
HOLLOW = re.compile(r"(Manager|Helper|Util|Utils|Base|Impl)$")
KNOWN_HOSTS = re.compile(
    r"(^|\.)(apache\.org|w3\.org|python\.org|readthedocs\.io|rfc-editor\.org|wikipedia\.org|opentelemetry\.io|example\.com)$"
)
PUBLIC_THREADS = re.compile(r"https:[/]{2}github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+\b")
DOCUMENTATION = [ipaddress.IPv4Network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
# Made-up members of tests live at these.
INVENTED = "10.0.0."


def impure_core(source: Source) -> Iterator[str]:
    """The core knows no clock, socket, thread, environment or dice, not even by a function-local import."""
    if not source.within(*CORE):
        return
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                found = [module]
            case ast.Call(func=ast.Name(id="print" | "open" | "input" | "__import__" as name)):
                found = [name] if name != "print" else []
            case ast.AsyncFunctionDef(name=name):
                found = [f"async def {name}"]
            case _:
                continue
        for name in found:
            if name.partition(".")[0] in IMPURE or name in {"open", "input", "__import__"} or name.startswith("async "):
                yield f"{source.path}:{getattr(node, 'lineno', 0)}: {name} in the core"


def printing(source: Source) -> Iterator[str]:
    """Only the command line and the demo write to stdout: a library that prints breaks its caller's output."""
    if not source.within("src/") or source.within("src/kohort/cli", "src/kohort/demo", "src/kohort/__main__.py"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{source.path}:{node.lineno}: print"


def swallowed_errors(source: Source) -> Iterator[str]:
    """A handler for everything that does nothing hides our own bugs."""
    if not source.is_python:
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        everything = node.type is None or (
            isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
        )
        if everything and all(isinstance(step, ast.Pass | ast.Continue) for step in node.body):
            yield f"{source.path}:{node.lineno}: every error is dropped"


def hollow_names(source: Source) -> Iterator[str]:
    """No class that "manages" or "helps", no module of leftovers."""
    if not source.is_python:
        return
    if Path(source.path).stem in {"utils", "util", "helpers", "helper", "misc", "common"}:
        yield f"{source.path}: a module's name says what it holds"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and HOLLOW.search(node.name):
            yield f"{source.path}:{node.lineno}: class {node.name}"


def unfinished_work(source: Source) -> Iterator[str]:
    """Unfinished work is an issue, not a comment."""
    for number, line in source.lines():
        if found := UNFINISHED.search(line):
            yield f"{source.path}:{number}: {found[0]}"


def bare_type_ignores(source: Source) -> Iterator[str]:
    """An ignored type error names its code, so that the next one is not ignored with it."""
    for number, line in source.lines():
        if TYPE_IGNORE in line and f"{TYPE_IGNORE}[" not in line:
            yield f"{source.path}:{number}: bare {TYPE_IGNORE}"


def addresses(source: Source) -> Iterator[str]:
    """No address of a machine or of a package index: the repository runs where those do not exist."""
    for number, line in source.lines():
        for host in re.findall(r"\bhttps?://([\w.-]+)", PUBLIC_THREADS.sub("", line)):
            if not KNOWN_HOSTS.search(host) and not _is_local(host):
                yield f"{source.path}:{number}: address {host}"
        for quad in re.findall(r"(?<![\w.])(?<!==)(?:\d{1,3}\.){3}\d{1,3}(?![\w.])", line):
            if not _is_local(quad) and not (source.within("tests/") and quad.startswith(INVENTED)):
                yield f"{source.path}:{number}: address {quad}"


def _is_local(host: str) -> bool:
    """Loopback, any-address and the ranges that RFC 5737 keeps for documentation."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or any(address in net for net in DOCUMENTATION)


CLOSED_ROOMS = frozenset(
    {
        "kohort.analytics",
        "kohort.analytics.tables",
        "kohort.assignor",
        "kohort.assignor.server",
        "kohort.broker",
        "kohort.broker.access",
        "kohort.broker.apis",
        "kohort.broker.cluster",
        "kohort.broker.config",
        "kohort.broker.fetch",
        "kohort.broker.groups",
        "kohort.broker.logs",
        "kohort.broker.maintenance",
        "kohort.broker.metrics",
        "kohort.broker.net",
        "kohort.broker.quotas",
        "kohort.broker.security",
        "kohort.broker.telemetry",
        "kohort.broker.transactions",
        "kohort.charts",
        "kohort.cli",
        "kohort.client",
        "kohort.client.admin",
        "kohort.client.blocking",
        "kohort.client.consume",
        "kohort.client.membership",
        "kohort.client.metrics",
        "kohort.client.net",
        "kohort.client.produce",
        "kohort.client.security",
        "kohort.columns",
        "kohort.compat",
        "kohort.compat.aiokafka",
        "kohort.compat.confluent",
        "kohort.compat.confluent.admin",
        "kohort.compat.kafka_python",
        "kohort.coordinator",
        "kohort.coordinator.classic",
        "kohort.coordinator.consumer",
        "kohort.coordinator.offsets",
        "kohort.coordinator.prompt",
        "kohort.coordinator.transactions",
        "kohort.gateway",
        "kohort.gateway.groups",
        "kohort.gateway.observed",
        "kohort.demo",
        "kohort.lab",
        "kohort.lab.clients",
        "kohort.log",
        "kohort.log.cluster",
        "kohort.log.postgres",
        "kohort.member",
        "kohort.member.classic",
        "kohort.member.consumer",
        "kohort.member.transactions",
        "kohort.opentelemetry",
        "kohort.recorder",
        "kohort.recorder.views",
        "kohort.requests",
        "kohort.schema_registry",
        "kohort.security",
        "kohort.security.sasl",
        "kohort.sim",
        "kohort.sim.checks",
        "kohort.sim.checks.transactions",
        "kohort.sim.environment",
        "kohort.sim.faults",
        "kohort.sim.model",
        "kohort.sim.plans",
        "kohort.sim.processes",
        "kohort.sim.runs",
        "kohort.sim.world",
        "kohort.telemetry",
        "kohort.testing",
        "kohort.testing.invariants",
        "kohort.testing.fake",
        "kohort.watch",
        "kohort.watch.findings",
        "kohort.watch.group",
        "kohort.watch.source",
        "kohort.watch.webhooks",
        "kohort.watch.otlp",
        "kohort.watch.metrics",
        "kohort.watch.web",
        "kohort.wire",
        "kohort.wire.api",
        "kohort.wire.batches",
        "kohort.wire.batches.scanning",
        "kohort.wire.codec",
        "kohort.wire.commits",
        "kohort.wire.group_log",
        "kohort.wire.transaction_log",
        "pyspark_kohort",
        "pyspark_kohort.member",
        "pyspark_kohort.net",
        "pyspark_kohort.sink",
        "pyspark_kohort.sinks",
        "pyspark_kohort.source",
    }
)
"""Packages that others import only by the names that their `__init__` exports."""

ROOMS_OF_MODULES = frozenset({"kohort", "kohort.wire.messages"})
"""Packages whose modules are their interface.

A message is a module of its own name. If `kohort.wire.messages` exported all of them, a program that
sends three requests would load and declare all forty.
"""

# A simulated world replaces the randomness, caches and threads inside these modules.
AROUND_THE_DOORS = ("src/kohort/sim/environment/isolation.py",)


def doors(source: Source) -> Iterator[str]:
    """A closed room is imported by its `__init__`, not by its modules. Tests may import the module that they test."""
    if not source.is_python or source.within("tests/", *AROUND_THE_DOORS):
        return
    here = source.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for module, line in _imported_modules(source.tree):
        room = module.rpartition(".")[0]
        if room in CLOSED_ROOMS and here != room and not here.startswith(f"{room}."):
            yield f"{source.path}:{line}: {module} is inside the room {room}: import what that room exports"


def _imported_modules(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the modules that are files, not packages, with the line of the import."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found = [f"{module}.{alias.name}" for alias in names]
                found = [name if _is_file(name) else module for name in found]
            case _:
                continue
        yield from ((name, node.lineno) for name in dict.fromkeys(found) if _is_file(name))


def _is_file(module: str) -> bool:
    return (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").is_file()


RULES: dict[str, Callable[[Source], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        impure_core,
        printing,
        swallowed_errors,
        hollow_names,
        unfinished_work,
        bare_type_ignores,
        addresses,
        doors,
    )
}


def sources() -> Iterator[Source]:
    """Every text file that we write: code, tests, benchmarks, examples, documents and the files at the root."""
    suffixes = {".py", ".md", ".toml", ".txt", ".c", ".h", ".sh", ".yml", ""}
    names = ("src", "tests", "bench", "examples", "docs", ".ci")
    folders = [ROOT / name for name in names if (ROOT / name).is_dir()]
    inside = [path for folder in folders for path in sorted(folder.rglob("*"))]
    for path in [*inside, *sorted(ROOT.iterdir())]:
        if path.is_file() and path.suffix in suffixes and path.name != "LICENSE" and not path.name.startswith("."):
            yield Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RULES)
def test_the_source_keeps_the_rule(name: str) -> None:
    rule = RULES[name]
    python_only = name in {"impure_core", "printing", "swallowed_errors", "hollow_names", "doors"}
    broken = [line for source in sources() if source.is_python or not python_only for line in rule(source)]
    assert not broken, "\n".join([rule.__doc__ or name, *broken])


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("impure_core", "src/kohort/wire/a.py", "import time"),
        ("impure_core", "src/kohort/coordinator/a.py", "def f():\n    from random import choice"),
        ("impure_core", "src/kohort/member/a.py", "import os.path"),
        ("impure_core", "src/kohort/member/a.py", "async def f(): ..."),
        ("impure_core", "src/kohort/assignor/a.py", "open('x')"),
        ("impure_core", "src/kohort/security/a.py", "import secrets"),
        ("printing", "src/kohort/broker/a.py", "print('x')"),
        ("swallowed_errors", "src/kohort/broker/a.py", "try:\n    f()\nexcept Exception:\n    pass"),
        ("swallowed_errors", "tests/a.py", "try:\n    f()\nexcept:\n    pass"),
        ("hollow_names", "src/kohort/log/utils.py", ""),
        ("hollow_names", "src/kohort/log/a.py", "class LogManager: ..."),
        ("unfinished_work", "src/kohort/log/a.py", "# TO" + "DO: later"),
        ("bare_type_ignores", "tests/a.py", f"x = 1  # {TYPE_IGNORE}"),
        ("addresses", "docs/a.md", "see http" + "://packages.internal/simple"),
        ("addresses", "docs/a.md", "see https" + "://github.com/somebody/something"),
        ("addresses", "bench/a.py", "host = '10.1" + ".2.3'"),
        ("doors", "src/kohort/cli/a.py", "from kohort.log.files import FileStore"),
        ("doors", "src/kohort/cli/a.py", "def f():\n    from kohort.log import files"),
        ("doors", "bench/a.py", "import kohort.log.files"),
        ("doors", "src/kohort/log/postgres/a.py", "from kohort.log.cluster.image import Node"),
        ("doors", "src/kohort/log/__init__.py", "from kohort.log.cluster.image import Node"),
    ],
)
def test_each_rule_can_fail(name: str, path: str, text: str) -> None:
    assert list(RULES[name](Source(path, text)))


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("impure_core", "src/kohort/broker/a.py", "import time"),
        ("impure_core", "src/kohort/wire/a.py", "from struct import Struct"),
        ("printing", "src/kohort/cli/topic.py", "print('x')"),
        ("swallowed_errors", "src/kohort/a.py", "try:\n    f()\nexcept KeyError:\n    pass"),
        ("bare_type_ignores", "tests/a.py", f"x = 1  # {TYPE_IGNORE}[assignment]"),
        ("doors", "src/kohort/cli/a.py", "from kohort.log import FileStore\nimport kohort.log"),
        ("doors", "src/kohort/log/cluster/a.py", "from kohort.log.files import FileStore"),
        ("doors", "src/kohort/cli/a.py", "from kohort.log.cluster import Node"),
        ("doors", "src/kohort/cli/a.py", "from kohort.wire.messages.fetch import FetchRequest"),
        ("doors", "tests/log/a.py", "from kohort.log.files import FileStore"),
        ("addresses", "docs/a.md", "127.0.0.1:9092, 192.0.2.7, https://kafka.apache.org/protocol, version 4.3.1"),
        ("addresses", "docs/a.md", "https://github.com/confluentinc/librdkafka/issues/1767"),
    ],
)
def test_each_rule_lets_the_rest_be(name: str, path: str, text: str) -> None:
    assert not list(RULES[name](Source(path, text)))


def test_every_package_is_a_closed_room_or_one_of_modules() -> None:
    packages = {path.parent.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("__init__.py")}
    listed = [*CLOSED_ROOMS, *ROOMS_OF_MODULES]
    assert len(listed) == len(set(listed))
    assert set(listed) == {package.replace("/", ".") for package in packages}


def test_a_closed_room_exports_all_that_its_door_imports() -> None:
    for room in CLOSED_ROOMS - {"kohort.cli"}:  # `main` is all that it has
        tree = ast.parse((ROOT / "src" / room.replace(".", "/") / "__init__.py").read_text(encoding="utf-8"))
        lists = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)]
        exported = [name for names in lists for name in names]
        if (modules := _loaded_on_demand(tree)) is None:
            imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        else:
            (block,) = (node for node in tree.body if isinstance(node, ast.If))
            imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
            named = {(f"{room}.{module}", name) for module, names in modules.items() for name in names}
            assert named == {(node.module, alias.name) for node in imports for alias in node.names}, room
        assert sorted(exported) == sorted({alias.name for node in imports for alias in node.names}), room


def _loaded_on_demand(tree: ast.Module) -> dict[str, tuple[str, ...]] | None:
    """Return the names that a door loads on demand, by module; None if it imports its names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "on_demand":
            modules: dict[str, tuple[str, ...]] = ast.literal_eval(node.args[1])
            return modules
    return None
