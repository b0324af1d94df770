"""A user's mistake is one sentence on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from kohort.errors import ErrorCode
from tests.cli.conftest import Run
from tests.hostile.peer import Batch, Peer
from tests.interop.kohort import kohort, running_kohort
from tests.interop.process import ServerProcess


def refused(*arguments: str) -> str:
    """Run the command to its end; what it wrote to stderr, once it is proven to be a user's error."""
    done = subprocess.run(kohort(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "ready" not in done.stdout
    return done.stderr.strip()


def is_one_sentence(text: str) -> bool:
    return "\n" not in text and text.startswith("kohort: ")


def test_a_data_directory_has_one_broker(tmp_path: Path) -> None:
    with running_kohort("--data", str(tmp_path)):
        said = refused("broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path))
    assert str(tmp_path) in said
    assert is_one_sentence(said)


def test_a_directory_is_free_again_when_its_broker_has_ended(tmp_path: Path) -> None:
    for _ in range(2):
        with running_kohort("--data", str(tmp_path)):
            pass


def test_a_directory_is_free_again_when_its_broker_was_killed(tmp_path: Path) -> None:
    process = ServerProcess(kohort("broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path)))
    process.wait_for("^ready ", timeout=20.0)
    process.kill()
    with running_kohort("--data", str(tmp_path)):
        pass


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused("broker", "--memory", "--listen", f"127.0.0.1:{port}")
    assert port in said
    assert is_one_sentence(said)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--set", "group.initial.rebalance.delay=5"), "group.initial.rebalance.delay.ms"),
        (("--set", "num.partitions=many"), "num.partitions"),
        (("--set", "num.partitions=0"), "num.partitions"),
        (("--set", "num.partitions"), "num.partitions"),
        (("--config", "/nonexistent/server.properties"), "/nonexistent/server.properties"),
        (("--listen", "127.0.0.1"), "127.0.0.1"),
        (("--listen", "127.0.0.1:99999"), "99999"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_value_is_named(run: Run, arguments: tuple[str, ...], named: str) -> None:
    told = run("broker", "--memory", *arguments)
    assert (told.code, told.out) == (2, "")
    assert named in told.err
    assert is_one_sentence(told.err.strip())


def test_an_unknown_option_is_named(run: Run) -> None:
    told = run("broker", "--no-such-option")
    assert told.code == 2
    assert "--no-such-option" in told.err


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    said = refused("broker", "--listen", "127.0.0.1:0", "--data", str(file))
    assert str(file) in said
    assert is_one_sentence(said)


needs_namespaces = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL).returncode != 0,
    reason="needs user namespaces for a small file system (unshare -rm)",
)


@needs_namespaces
def test_a_disk_that_fills_up_is_an_error_to_producers_and_the_broker_keeps_running(tmp_path: Path) -> None:
    # A file system of 8 MB that only this process sees; it disappears with the process.
    script = f'mount -t tmpfs -o size=8m none "{tmp_path}" && exec "$0" "$@"'
    command = kohort("broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    process = ServerProcess(["unshare", "-rm", "sh", "-c", script, *command])
    try:
        ready = process.wait_for(r"^ready (\S+)$", timeout=20.0)
        acknowledged = 0
        with Peer(ready[1]) as peer:
            peer.create_topic("full")
            for _ in range(30):
                error, _ = peer.produce("full", bytes(Batch(values=(b"x" * 900_000,))))
                assert error in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
                acknowledged += error == ErrorCode.NONE
        assert 0 < acknowledged < 10
        # A disk without space for the mark of a clean shutdown is reported, too.
        code = process.stop()
        said = [line for line in process.stderr if line.startswith("kohort: ")]
        assert code == 0 or (code == 2 and "No space left on device" in said[0] and str(tmp_path) in said[0])
        assert not any("Traceback" in line for line in process.stderr)
    finally:
        process.kill()
