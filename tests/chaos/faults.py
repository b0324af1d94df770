"""Faults of a run: brokers are killed, stopped or suspended, and their disks are full or slow."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kohort.log.cluster import ClusterImage
from kohort.log.cluster.directory import read_image
from tests.chaos.history import History
from tests.interop.process import until

_REPLACED_WITHIN_S = 20.0


class FaultyDisk:
    """Disks of the brokers that were started with `environment`."""

    def __init__(self, directory: Path) -> None:
        """Without a C compiler the disks are sound."""
        self._switches = directory / "disk"
        self._switches.mkdir()
        library = directory / "faulty_disk.so"
        source = Path(__file__).with_name("faulty_disk.c")
        self.there = shutil.which("cc") is not None
        if self.there:
            subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
        self.environment: Mapping[str, str] = (
            {"LD_PRELOAD": str(library), "CHAOS_DISK": str(self._switches)} if self.there else {}
        )

    def full(self, process_id: int, seconds: float) -> None:
        self._for(f"full-{process_id}", "", seconds)

    def slow(self, process_id: int, sync_ms: int, seconds: float) -> None:
        self._for(f"slow-{process_id}", str(sync_ms), seconds)

    def _for(self, name: str, text: str, seconds: float) -> None:
        switch = self._switches / name
        switch.write_text(text)
        time.sleep(seconds)
        switch.unlink()


class Faults:
    """One fault after the other, to a cluster of brokers over one directory that are started again."""

    def __init__(self, bootstrap: str, data: Path, disk: FaultyDisk, chance: random.Random, history: History) -> None:
        self.bootstrap = bootstrap
        self._data = data
        self._disk = disk
        self._chance = chance
        self._history = history
        self.failovers = 0
        """How often what a broker led was led by others."""

    def inject_fault(self) -> None:
        """Do something to one broker, and wait until the others have taken over where they must."""
        image = self._image()
        if len(image.nodes) < 2:
            time.sleep(0.1)
            return
        node = self._chance.choice(sorted(image.nodes))
        process_id = self._process_id(node)
        if not self._is_broker(process_id, node):
            return  # it has ended by itself
        kinds: list[tuple[Callable[[int, int], None], int]] = [
            (self._kill, 10),
            (self._terminate, 3),
            (self._stand_still, 2),
            (self._pause, 1),
        ]
        if self._disk.there:
            kinds += [(self._fill, 1), (self._slow_down, 1)]
        (fault,) = self._chance.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
        self._history.note("fault", what=fault.__name__.strip("_"), node=node)
        fault(node, process_id)

    def settle(self, brokers: int) -> None:
        """Wait until all brokers are there and lead their shares."""
        until(60.0, "the cluster settles", lambda: len(self._image().nodes) == brokers and self._image().settled)

    def _kill(self, node: int, process_id: int) -> None:
        send_signal(process_id, signal.SIGKILL)
        self._replaced(node, process_id)

    def _terminate(self, node: int, process_id: int) -> None:
        send_signal(process_id, signal.SIGTERM)
        self._replaced(node, process_id)

    def _stand_still(self, node: int, process_id: int) -> None:
        send_signal(process_id, signal.SIGSTOP)
        self._replaced(node, process_id)

    def _pause(self, node: int, process_id: int) -> None:
        send_signal(process_id, signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.05, 0.6))
        send_signal(process_id, signal.SIGCONT)

    def _fill(self, node: int, process_id: int) -> None:
        self._disk.full(process_id, self._chance.uniform(0.2, 1.5))

    def _slow_down(self, node: int, process_id: int) -> None:
        self._disk.slow(process_id, self._chance.randint(20, 300), self._chance.uniform(0.5, 2.0))

    def _replaced(self, node: int, process_id: int) -> None:
        def replaced() -> bool:
            return node not in self._image().nodes or self._process_id(node) != process_id

        try:
            until(_REPLACED_WITHIN_S, f"the others lead what broker {node} led", replaced)
        except AssertionError as error:
            self._history.note("stuck", what=str(error))
        else:
            self.failovers += 1

    def _image(self) -> ClusterImage:
        return read_image(self._data)

    def _is_broker(self, process_id: int, node: int) -> bool:
        """Return whether the process id still belongs to the broker, so that a signal hits no other process."""
        try:
            words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return False
        return str(self._data).encode() in words and str(node).encode() in words

    def _process_id(self, node: int) -> int:
        return int((self._data / "brokers" / f"{node}.lock").read_text().split()[0])


def send_signal(process_id: int, number: signal.Signals) -> None:
    """Send a signal to a broker that may end by itself at this moment, as one does that has lost its lease."""
    with suppress(ProcessLookupError):
        os.kill(process_id, number)
