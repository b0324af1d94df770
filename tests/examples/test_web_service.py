"""The example of a web service, as uvicorn runs it."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kohort import NewTopic, TopicPartition
from kohort.blocking import Admin, Producer
from tests.interop.broker import Broker
from tests.interop.process import ServerProcess

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@dataclass(frozen=True)
class Service:
    """A running service, and the name of its topic and group."""

    url: str
    name: str
    process: ServerProcess

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Return status and JSON of the answer to GET, or to POST if there is a body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)


@pytest.fixture
def service(any_broker: Broker) -> Iterator[Service]:
    name = f"service-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2)])
    env = dict(os.environ) | {"BOOTSTRAP": any_broker.bootstrap, "TOPIC": name, "GROUP": name}
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--port", "0", "web_service:app"]
    process = ServerProcess(command, env=env)
    try:
        yield Service(process.wait_for(r"running on (http://\S+)", timeout=60.0)[1], name, process)
    finally:
        process.kill()


def test_the_service_stores_and_ships_orders_and_leaves_in_the_end(any_broker: Broker, service: Service) -> None:
    for number in range(3):
        status, stored = service.ask("/orders", {"customer": "ada", "item": f"book-{number}"})
        assert (status, stored["offset"]) == (201, number)
    for number in range(3):
        service.process.wait_for(rf"shipping book-{number} to ada", timeout=30.0)
    assert service.ask("/health") == (200, {"partitions": [0, 1]})
    assert service.ask("/orders", {"customer": "ada"})[0] == 422
    assert service.process.stop(30.0) in (0, -signal.SIGTERM)
    assert not any("Traceback" in line for line in service.process.stderr), service.process.output()
    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        assert not admin.describe_groups([service.name])[service.name].members
        position = admin.group_offsets(service.name)[TopicPartition(service.name, stored["partition"])]
    assert position is not None and position.offset == 3


def test_the_service_reports_that_shipping_failed(any_broker: Broker, service: Service) -> None:
    assert service.ask("/health")[0] == 200
    with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        producer.send(service.name, b"no order").result(timeout=30)
    while (answer := service.ask("/health"))[0] == 200:
        assert service.process.alive
    assert answer[0] == 503 and "Shipping has ended: 1 validation error for Order" in answer[1]["detail"]
