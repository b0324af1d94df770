"""Our broker in memory as a test double, beside franz-go's kfake, which `kcl fake` serves, and Crabka.

    python bench/bench_fake.py [--peer] [--crabka PROGRAM] [--seconds S]

Start, memory and requests: the figures of bench_broker.py, for all on one core each. The load needs gcc. With --peer
kfake is built (bench/kfake), which needs Go 1.26 and its modules. Crabka is a broker in Rust over files. Its crates are
yanked, so it is not built here: `cargo build --release --locked` in the unpacked crate of crabka-broker 0.3.0 does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import UNHELD, WORK, Figure, built_load, measure, need_gcc, server_core, show
from tests.interop.kafka import free_ports
from tests.interop.kohort import KohortBroker, running_kohort, started
from tests.interop.process import ServerProcess, until


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the broker in memory beside kfake and Crabka.")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each figure is measured (default 4)")
    parser.add_argument("--peer", action="store_true", help="build kfake, measure it too and print ratios")
    parser.add_argument("--crabka", metavar="PROGRAM", help="measure this crabka-broker, too")
    options = parser.parse_args()
    if options.crabka is not None and shutil.which(options.crabka) is None:
        parser.error(f"--crabka {options.crabka} is no program")
    need_gcc()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        load, program = built_load(Path(scratch)), Path(scratch, "kfake")
        peer: list[Figure] = []
        if options.peer and (reason := not_built(program)):
            print(f"without kfake: {reason}")
        elif options.peer:
            peer = measure(partial(started, [str(program)]), server_core(), load, options.seconds, warm=1.0)
        crabka: list[Figure] = []
        if options.crabka is not None:
            start = partial(running_crabka, options.crabka, Path(scratch, "crabka"))
            # In a consumer group it repeats the whole assignment in each answer.
            works = [work for work in WORK if work.protocol == "classic"]
            crabka = measure(start, server_core(), load, options.seconds, warm=1.0, works=works)
        ours = measure(partial(running_kohort, **UNHELD), server_core(), load, options.seconds, warm=1.0)
    show(ours, peer, peers_name="kfake")
    if crabka:
        show(ours, crabka, peers_name="Crabka")
    return 0


@contextlib.contextmanager
def running_crabka(program: str, data: Path) -> Iterator[KohortBroker]:
    """Start Crabka on a free port over a directory, which its own tool would prepare; end it by SIGKILL."""
    data.mkdir()
    (data / "meta.properties.json").write_text(json.dumps({"directory_id": str(uuid.uuid4())}))
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    process = ServerProcess(
        [program, "--listen-addr", address, "--log-dir", str(data), "--metrics-listen-addr", "none"]
    )
    try:
        until(30.0, f"Crabka listens at {address}", lambda: _listens(port))
        yield KohortBroker(address, process)
    finally:
        process.kill()


def _listens(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def not_built(program: Path) -> str | None:
    """Build kfake's program; return the reason if that is not possible."""
    if shutil.which("go") is None:
        return "needs go (not on the PATH)"
    print("building kfake", file=sys.stderr, flush=True)
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-o", str(program), "."]
    # A Go that is too old would fetch a newer one.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    built = subprocess.run(
        command, cwd=Path(__file__).with_name("kfake"), env=environment, capture_output=True, text=True
    )
    if not built.returncode:
        return None
    return (built.stderr.strip().splitlines() or [f"go build ended with {built.returncode}"])[-1]


if __name__ == "__main__":
    sys.exit(main())
