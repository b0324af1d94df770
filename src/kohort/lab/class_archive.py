"""Class archive (AppCDS) for Java members, recorded while members run every protocol with a Kohort broker.

Without it, a member loads two thousand classes while it joins, which takes a second if ten members
do so at once. The experiments would measure that time, which is not part of a rebalance.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kohort import blocking
from kohort.child_processes import starting_child
from kohort.client import NewTopic
from kohort.lab.brokers import BROKERS
from kohort.lab.member_settings import PROTOCOLS, MemberSettings
from kohort.lab.process import ends_with_us

_RECORDS = 200
_TIMEOUT_S = 60.0


def archive_classes(java: Sequence[str], archive: Path) -> None:
    """Write the archive by running members with the command line `java`, to which their settings are appended.

    If the members fail, there is no archive.
    """
    with BROKERS["kohort"]({"group.initial.rebalance.delay.ms": "0"}) as broker:
        members = [_member_settings(broker.bootstrap, protocol) for protocol in PROTOCOLS]
        _write([settings.topic for settings in members], broker.bootstrap)
        before, after = java[:1], java[1:]
        command = [
            *before,
            f"-XX:ArchiveClassesAtExit={archive}",
            *after,
            *(settings.to_json() for settings in members),
        ]
        with starting_child(signal.SIGKILL) as prepare:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
                preexec_fn=prepare,
            )
            ends_with_us(process)
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _member_settings(bootstrap: str, protocol: str) -> MemberSettings:
    topic = f"class-archive-{protocol}"
    return MemberSettings(
        bootstrap=bootstrap,
        group=topic,
        topic=topic,
        name="class-archive",
        protocol=protocol,
        changelog=f"{topic}-counts",
        commit_ms=500,
    )


def _write(topics: Sequence[str], bootstrap: str) -> None:
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}{suffix}", 1) for topic in topics for suffix in ("", "-counts")])
    with blocking.Producer(bootstrap_servers=bootstrap) as producer:
        for topic in topics:
            for number in range(_RECORDS):
                producer.send(topic, b"%d" % number, key=b"%d" % (number % 10), partition=0)
            producer.send(f"{topic}-counts", b"1", key=b"0", partition=0)
        producer.flush()
