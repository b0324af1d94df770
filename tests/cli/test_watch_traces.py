"""`kohort watch --otlp-endpoint`: the command, a broker, and a receiver that decodes what arrives."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.testing import Broker
from tests.cli.conftest import Run, succeeded
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess
from tests.watch.test_otlp import Receiver
from tests.watch.test_otlp import receiver as receiver  # a fixture


def test_each_rebalance_arrives_once_as_a_trace(run: Run, name: str, receiver: Receiver, tmp_path: Path) -> None:
    with Broker() as broker:
        at = broker.bootstrap_servers
        command = kohort("watch", "--bootstrap", at, "--listen", "127.0.0.1:0", "--otlp-endpoint", receiver.url[:-10])
        watcher = ServerProcess(command, cwd=tmp_path)
        try:
            watcher.wait_for(r"^ready http", timeout=60.0)
            succeeded(run("topic", "create", name, bootstrap=at))
            succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
            succeeded(run("consume", name, "--group", name, "--from-beginning", "--max", "1", bootstrap=at))
            spans = receiver.spans()  # that the group is empty is final at once
        finally:
            watcher.stop()
    while not receiver.requests.empty():
        spans += receiver.spans()
    roots = [span for span in spans if span.name == f"rebalance {name}"]
    found = [each.value.int_value for span in roots for each in span.attributes if each.key.endswith(".generation")]
    assert found
    assert len(found) == len(set(found))
    assert len({span.trace_id for span in roots}) == len(roots)


def test_a_user_that_the_cluster_refuses_at_first_is_reported(receiver: Receiver, tmp_path: Path) -> None:
    with Broker(users={"watch": "right password"}) as broker:
        at = broker.bootstrap_servers
        login = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=watch")
        properties = tmp_path / "watch.properties"
        properties.write_text("\n".join((*login, "sasl.password=wrong password")))
        command = kohort("watch", "--bootstrap", at, "--listen", "127.0.0.1:0", "--otlp-endpoint", receiver.url[:-10])
        watcher = ServerProcess((*command, "--command-config", str(properties)), cwd=tmp_path)
        try:
            for said in ("Groups and rebalances are not followed", "Rebalances are not exported as traces yet"):
                line = watcher.wait_for(rf"WARNING kohort.watch {said}: (.*)$", timeout=60.0)[1]
                assert "rejects user 'watch'" in line
            assert watcher.stop() == 0
            assert "wrong password" not in watcher.output()
        finally:
            watcher.kill()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--otlp-endpoint", "127.0.0.1:4318"), "The OTLP endpoint must be a URL such as http://127.0.0.1:4318."),
        (("--once", "--otlp-endpoint", "http://127.0.0.1:4318"), "--otlp-endpoint is for a watcher that goes on"),
    ],
)
def test_it_says_what_is_wrong(run: Run, arguments: tuple[str, ...], sentence: str) -> None:
    told = run("watch", *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"kohort: {sentence}")
