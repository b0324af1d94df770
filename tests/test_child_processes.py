"""Starting a child process: a signal that arrives between its fork and its own session is the parent's."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BEFORE = """
import asyncio, os, signal, sys
from kohort import interruption
from kohort.child_processes import starting_child
interruption.install()
# Ctrl-C at the worst moment: the child has this process's handlers, and is still in its process group.
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
started = [sys.executable, "-c", "print('started')"]
"""

_BLOCKING = """
import subprocess
with starting_child(signal.SIGKILL) as prepare:
    child = subprocess.Popen(started, start_new_session=True, preexec_fn=prepare)
print(child.wait())
"""

_ASYNCIO = """
async def start():
    with starting_child(signal.SIGKILL) as prepare:
        child = await asyncio.create_subprocess_exec(*started, start_new_session=True, preexec_fn=prepare)
    return await child.wait()
async def two():
    print(await asyncio.gather(start(), start()))
interruption.run(two())
"""

_LEFT = """
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def _run(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", _BEFORE + script + _LEFT], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("script", "told"),
    [(_BLOCKING, ["started", "0"]), (_ASYNCIO, ["started", "started", "[0, 0]"])],
    ids=["blocking", "asyncio"],
)
def test_a_child_that_gets_ctrl_c_before_its_own_session_starts_all_the_same(script: str, told: list[str]) -> None:
    # It would handle the signal with its copy of the parent's handlers: print a traceback, end what the parent has
    # started, and by the wakeup descriptor that both write to tell the parent's loop of a second Ctrl-C.
    assert _run(script) == [*told, "set()"]
