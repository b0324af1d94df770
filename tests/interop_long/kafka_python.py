"""kafka-python's integration tests, from its source distribution, against one fresh broker.

The distribution leaves out two modules that they import: the package itself and `test.service`, which starts brokers.
Ours is started here, so what stands in for it does nothing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.interop_long.suite import (
    ACLS,
    Outcome,
    Unavailable,
    Verdict,
    build_step,
    cached,
    fresh_broker,
    made_once,
    run_limited,
    unpack,
)

NAME = "kafka-python"
_VERSION = "3.0.12"
# Packages for codecs; without them the client skips their tests.
_CODECS = ("lz4==4.4.5", "python-snappy==0.7.3", "zstandard==0.25.0")

# Settings that their fixtures give a broker: node 0, four partitions, sessions of three seconds.
_SETTINGS = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    **ACLS,
}
_NODE_ID = 0
# The newest that the client knows: it runs the tests of what older brokers lack.
_KAFKA_VERSION = "4.3"

_SERVICE = '''\
"""Stands in for the module that starts brokers: theirs runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    close = stop = dump_logs = open


class SpawnedService:
    def __init__(self, arguments, env):
        raise RuntimeError("no broker is started here")
'''

_MODULES = ("admin", "consumer", "producer")
_SECONDS = 900.0


def run(kind: str, named: Sequence[str]) -> Iterator[Outcome]:
    """Run all tests, or those whose names contain one of the given."""
    source, codecs = _fetched(), _codecs()
    log = cached(NAME) / f"run-{kind}.log"
    with tempfile.TemporaryDirectory(prefix="kafka-python-") as work:
        report = Path(work, "report.xml")
        with fresh_broker(kind, _NODE_ID, _SETTINGS) as broker:
            command = [
                *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
                # Their own options, less what a plugin of ours would add; a stuck test must not hold up the others.
                *("-p", "pytest_timeout", "-o", "addopts=", "--timeout=120", f"--junit-xml={report}"),
                *(f"test/integration/test_{module}_integration.py" for module in _MODULES),
                *(("-k", " or ".join(named)) if named else ()),
            ]
            run_limited(
                command,
                cwd=source,
                env={
                    "KAFKA_URI": f"kafka://{broker.bootstrap}",
                    "KAFKA_VERSION": _KAFKA_VERSION,
                    # Only has to be there: nothing is started from it.
                    "KAFKA_ROOT": work,
                    "PYTHONPATH": f"{source}:{codecs}",
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                },
                log=log,
                timeout=_SECONDS,
            )
        if not report.exists():
            raise Unavailable(f"the tests did not end within {_SECONDS:.0f} s; see {log}")
        yield from (_outcome(case) for case in ElementTree.parse(report).iter("testcase"))


def _fetched() -> Path:
    home = cached(NAME)
    with made_once(home / "source") as source:
        if source is not None:
            download = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "kafka-python"]
            build_step([*download, f"kafka-python=={_VERSION}"], cwd=source.parent, log=home / "build.log", timeout=300)
            (archive,) = source.parent.glob("*.tar.gz")
            unpack(archive, source)
            (source / "test" / "__init__.py").touch()
            (source / "test" / "service.py").write_text(_SERVICE)
    return home / "source"


def _codecs() -> Path:
    home = cached(NAME)
    with made_once(home / "codecs") as codecs:
        if codecs is not None:
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(codecs), *_CODECS]
            build_step(install, cwd=codecs, log=home / "build.log", timeout=300)
    return home / "codecs"


def _outcome(case: ElementTree.Element) -> Outcome:
    verdict, detail = Verdict.PASSED, ""
    for kind, ends in (("failure", Verdict.FAILED), ("error", Verdict.FAILED), ("skipped", Verdict.SKIPPED)):
        told = case.find(kind)
        if told is not None:
            verdict, detail = ends, (told.get("message") or "").partition("\n")[0][:200]
    about = case.get("classname", "").rpartition("test_")[2].removesuffix("_integration")
    return Outcome(case.get("name", ""), about, verdict, float(case.get("time", "0")), detail)
