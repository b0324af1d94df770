"""node-rdkafka's e2e tests, from its npm package: the addon is built once, with the librdkafka that it brings along.

Each of its files runs against a fresh broker, by mocha, as its own Makefile has it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.interop.clients import Confluent
from tests.interop_long.suite import (
    Outcome,
    Verdict,
    build_step,
    cached,
    fresh_broker,
    made_once,
    run_limited,
    tool,
    unpack,
)

NAME = "node-rdkafka"
_PACKAGE = "node-rdkafka@3.6.1"
# Packages to run, build and test it.
_MODULES = ("bindings@1.5.0", "nan@2.30.0", "node-gyp@11.5.0", "mocha@10.8.2", "bluebird@3.7.2")

_SPECS = ("admin", "both", "consumer", "groups", "producer", "producer-transaction")
# They count on these, as its own set-up has them.
_TOPICS = ("test", "test2")
_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
_SECONDS = 180.0


def run(kind: str, named: Sequence[str]) -> Iterator[Outcome]:
    """Run all files, or those that are named, one after the other."""
    package = _built()
    for spec in _SPECS:
        if not named or spec in named:
            yield from _run_spec(package, kind, spec)


def _built() -> Path:
    """The unpacked package with its addon, fetched and built on first use: some minutes of one processor."""
    home = cached(NAME)
    with made_once(home / "source") as source:
        if source is not None:
            for program in ("g++", "make"):
                tool(program)
            log = home / "build.log"
            build_step([tool("npm"), "pack", "--silent", _PACKAGE], cwd=source.parent, log=log, timeout=300)
            (archive,) = source.parent.glob("*.tgz")
            unpack(archive, source)
            install = [
                "npm",
                "install",
                "--ignore-scripts",
                "--no-save",
                "--no-package-lock",
                "--no-audit",
                "--no-fund",
            ]
            build_step([*install, *_MODULES], cwd=source, log=log, timeout=300)
            build_step(
                ["nice", "node_modules/.bin/node-gyp", "rebuild", *_headers()], cwd=source, log=log, timeout=1800
            )
    return home / "source"


def _headers() -> list[str]:
    """Node's own headers where it has them at hand; else node-gyp fetches them."""
    prefix = Path(os.path.realpath(tool("node"))).parents[1]
    return [f"--nodedir={prefix}"] if (prefix / "include" / "node" / "node.h").exists() else []


def _run_spec(package: Path, kind: str, spec: str) -> Iterator[Outcome]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="node-rdkafka-") as work:
        report = Path(work, "report.json")
        with fresh_broker(kind, 1, _SETTINGS) as broker:
            for topic in _TOPICS:
                Confluent().create_topic(broker.bootstrap, topic, 1)
            run_limited(
                [
                    *("node_modules/.bin/mocha", "--exit", "--timeout", "60000"),
                    *("--reporter", "json", "--reporter-option", f"output={report}", f"e2e/{spec}.spec.js"),
                ],
                cwd=package,
                env={"KAFKA_HOST": broker.bootstrap},
                log=cached(NAME) / f"{spec}-{kind}.log",
                timeout=_SECONDS,
            )
        if report.exists():
            yield from _outcomes(spec, json.loads(report.read_text()))
        else:
            seconds = time.monotonic() - started
            yield Outcome(spec, "the whole file", Verdict.TIMED_OUT, seconds, f"not within {_SECONDS:.0f} s")


def _outcomes(spec: str, report: dict[str, Any]) -> Iterator[Outcome]:
    """Return one result per test; a failed hook counts for the tests that mocha skips because of it."""
    for kind, verdict in (("passes", Verdict.PASSED), ("failures", Verdict.FAILED), ("pending", Verdict.SKIPPED)):
        for test in report[kind]:
            detail = str(test["err"].get("message") or "").partition("\n")[0][:200]
            seconds = (test.get("duration") or 0) / 1000
            yield Outcome(f"{spec}: {_title(test)}", test["fullTitle"], verdict, seconds, detail)


def _title(test: dict[str, Any]) -> str:
    """A hook's without that of the test around which it happened to fail."""
    hook = re.match(r'"([a-z ]+)" hook', test["title"])
    return f"the {hook[1]} hook" if hook else str(test["title"]).strip()
