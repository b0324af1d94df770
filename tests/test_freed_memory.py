"""A server keeps the memory of large buffers that it has freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from types import ModuleType

import pytest

import kohort.broker.main
import kohort.gateway.main

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")

_BUFFERS, _TIMES = 8, 50
_PROGRAM = f"""
import resource
from kohort.freed_memory import keep_freed_memory
keep_freed_memory()
size = 1 << 20
for time in range({_TIMES}):
    if time == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    buffers = [b'x' * size for _ in range({_BUFFERS})]
    del buffers
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(environment: Mapping[str, str]) -> int:
    """Of a process that has its buffers already once."""
    others = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env={**others, **environment}, stdout=subprocess.PIPE, check=True, timeout=60
    )
    return int(done.stdout)


@needs_glibc
def test_buffers_of_megabytes_that_were_freed_are_used_again() -> None:
    assert page_faults({}) < 1_000


@needs_glibc
@pytest.mark.parametrize(
    "environment",
    [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}],
    ids=["variable", "tunables"],
)
def test_what_the_environment_says_of_the_allocator_stays_in_force(environment: Mapping[str, str]) -> None:
    assert page_faults(environment) > 10_000


@pytest.mark.parametrize("server", [kohort.broker.main, kohort.gateway.main], ids=["broker", "gateway"])
def test_servers_begin_with_it(server: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []

    def run(serving: Coroutine[object, object, int]) -> int:
        serving.close()
        happened.append("served")
        return 0

    monkeypatch.setattr(server, "log_to_stderr", lambda: None)
    monkeypatch.setattr(server, "keep_freed_memory", lambda: happened.append("kept"))
    monkeypatch.setattr(server.uvloop, "run", run)
    server.run(None)
    assert happened == ["kept", "served"]
