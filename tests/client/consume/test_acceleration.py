"""Loading of the compiled code, which may take long and must not keep a process from ending."""

from __future__ import annotations

import subprocess
import sys

_COMPILES = """
import sys, threading, time
from importlib.abc import MetaPathFinder

class Compiler(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "kohort.client.consume.compiled":
            began.set()
            until = time.monotonic() + float(sys.argv[1])
            while time.monotonic() < until:
                time.sleep(0.01)
            raise ImportError("it was compiled for long")

began = threading.Event()
sys.meta_path.insert(0, Compiler())
from kohort.client.consume.acceleration import _loading
loaded = _loading.begin()
began.wait()
"""


def _run(program: str, seconds: int, warns: str = "") -> str:
    command = [sys.executable, "-c", _COMPILES + program, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, warns)
    return done.stdout


def test_a_process_ends_although_compiled_code_is_still_loaded() -> None:
    assert _run("print('ends')", 3_600) == "ends\n"


def test_the_end_of_the_main_thread_ends_no_loading_that_another_thread_needs() -> None:
    works = "threading.Thread(target=lambda: print(loaded.exception())).start()"
    warns = "records are decoded by plain Python: it was compiled for long\n"
    assert _run(works, 1, warns) == "the compiled code of the extra `fast` cannot be loaded: it was compiled for long\n"
