"""`import kohort` costs nothing until something of it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kohort
from tests.interop.broker import Broker


def test_the_client_is_loaded_when_it_is_used() -> None:
    script = "import kohort, sys; print('asyncio' in sys.modules); kohort.Consumer; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_every_public_name_exists() -> None:
    for name in kohort.__all__:
        assert getattr(kohort, name).__name__ == name
    assert dir(kohort) == kohort.__all__
    with pytest.raises(AttributeError, match="no attribute 'Consumr'"):
        kohort.Consumr  # type: ignore[attr-defined]  # noqa: B018


WITHOUT_THE_EXTRA = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numba", "numpy", "pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {"numba", "numpy", "pyarrow"} else find_spec(name)

from kohort import ConfigError, TopicPartition
from kohort.blocking import Consumer, Producer

bootstrap, topic = sys.argv[1:]
with Producer(bootstrap_servers=bootstrap) as producer:
    for n in range(2000):
        producer.send(topic, b"%d" % n + bytes(100))
with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
    consumer.assign([TopicPartition(topic, 0)])
    read = 0
    while read < 2000:
        read += len(consumer.poll())
    try:
        consumer.poll_arrow()
    except ConfigError as problem:
        print(read, problem)
"""


def test_without_the_extra_records_come_and_columns_are_refused(kohort_broker: Broker, fresh: str) -> None:
    command = [sys.executable, "-c", WITHOUT_THE_EXTRA, kohort_broker.bootstrap, fresh]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("2000 poll_arrow and poll_batches") and "pip install '.[fast]'" in run.stdout
