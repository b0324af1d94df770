"""Fifty hostile connections in ten ways at once: a group of twenty honest members notices nothing, nothing stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.honest import honest_group
from tests.hostile.peer import Batch, Peer, open_sockets
from tests.hostile.strangers import EACH, TOPIC, WAYS
from tests.interop.kohort import running_kohort
from tests.interop.process import until

MIB = 1 << 20
HONEST = 20
MOST_MIB = 160
"""Over what the broker had before: five readers of files, 5 MB of joins, the largest frames that come whole."""


def strangers(bootstrap: str, seconds: float) -> dict[str, int]:
    """Return what they sent, after they are disconnected."""
    command = [sys.executable, "-m", "tests.hostile.strangers", bootstrap, str(seconds)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    sent: dict[str, int] = json.loads(ran.stdout)
    return sent


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", [2.0, pytest.param(12.0, marks=pytest.mark.long("strangers for half a minute"))])
def test_fifty_hostile_clients_do_not_disturb_an_honest_group_and_leave_nothing(tmp_path: Path, seconds: float) -> None:
    settings = {
        "frame_read_timeout_ms": "1000",
        "connections_max_idle_ms": "4000",
        "group_initial_rebalance_delay_ms": "1000",
        "group_heartbeat_hold_ms": "0",  # so that it shows how soon each heartbeat is answered
    }
    with running_kohort("--data", str(tmp_path / "data"), **settings) as broker:
        with Peer(broker.bootstrap) as peer:
            peer.create_topic(TOPIC)
            for _ in range(16):
                assert peer.produce(TOPIC, bytes(Batch(values=(b"x" * 900_000,))))[0] == 0
        with honest_group(broker, "honest", HONEST) as heard:
            until(30.0, "all of them beat", lambda: heard.beats >= 3 * HONEST)
            open_before = open_sockets(broker.pid)
            memory = [broker.process.rss_bytes()]
            for _ in range(3):
                sent = strangers(broker.bootstrap, seconds)
                assert all(sent[way.__name__.replace("_", " ")] >= EACH for way in WAYS), sent
                until(30.0, "their connections are gone", lambda: open_sockets(broker.pid) <= open_before)
                memory.append(broker.process.rss_bytes())
                print(
                    sent,
                    [size // MIB for size in memory],
                    f"{heard.beats} beats, slowest {heard.slowest_cpu_s:.2f} s of CPU",
                )
        # A leak costs as much in each round; a garbage collection that is due costs it in one.
        later = memory[2] - memory[1], memory[3] - memory[2]
        assert min(later) < 32 * MIB, "later rounds cost no more than the first"
        assert memory[1] - memory[0] < MOST_MIB * MIB
        failed = [line for line in broker.process.stderr if "Traceback" in line or "request failed" in line]
        assert not failed, failed
