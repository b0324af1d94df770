"""`kohort watch --webhook`: the command, a broker, and a real receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.testing import Broker
from tests.cli.conftest import Run, succeeded
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess
from tests.watch.webhooks.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker without groups of other tests, whose messages could use up what may be sent in a minute."""
    with Broker() as broker:
        yield broker


def test_a_group_without_members_whose_records_wait(
    run: Run, own_broker: Broker, name: str, receiver: Receiver, tmp_path: Path
) -> None:
    at = own_broker.bootstrap_servers
    succeeded(run("topic", "create", name, bootstrap=at))
    succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
    succeeded(run("consume", name, "--group", name, "--from-beginning", "--max", "1", bootstrap=at))
    hook = tmp_path / "hook.json"
    hook.write_text(json.dumps({"url": receiver.url("/T0SECRET"), "secret": "s3cret"}))
    command = kohort(
        "watch", "--bootstrap", at, "--listen", "127.0.0.1:0", "--cluster-name", "test",
        "--webhook", f"@{hook}", "--webhook-on", "group-emptied",
    )  # fmt: skip
    watcher = ServerProcess(command, cwd=tmp_path)
    try:
        (got,) = receiver.wait(1)
    finally:
        watcher.stop()
    assert got.path == "/T0SECRET"
    assert got.document["status"] == "firing"
    assert got.document["commonLabels"] == {
        "alertname": "group-emptied",
        "severity": "warning",
        "cluster": "test",
        "group": name,
    }
    assert got.document["externalURL"].startswith("http://127.0.0.1:")
    assert "1 record wait" in got.document["text"]
    assert got.headers["Webhook-Signature"].startswith("v1,")
    assert "T0SECRET" not in watcher.output()
    assert "s3cret" not in watcher.output()


@pytest.mark.parametrize("command", [("broker", "--memory", "--listen", "127.0.0.1:0"), ("cluster", "--brokers", "2")])
def test_the_page_inside_a_broker_sends_events(
    run: Run, command: tuple[str, ...], name: str, receiver: Receiver, tmp_path: Path
) -> None:
    options = ("--web", "127.0.0.1:0", "--webhook", receiver.url("/T0SECRET"), "--webhook-on", "group-emptied")
    process = ServerProcess(kohort(*command, *options), cwd=tmp_path)
    try:
        at = process.wait_for(r"^ready (\d\S+)$", timeout=60.0)[1]
        page = process.wait_for(r"^ready (http\S+)$", timeout=60.0)[1]
        succeeded(run("topic", "create", name, bootstrap=at))
        succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
        succeeded(run("consume", name, "--group", name, "--from-beginning", "--max", "1", bootstrap=at))
        got = receiver.wait(1)[-1]
    finally:
        process.kill()
    assert got.document["commonLabels"]["group"] == name
    assert got.document["commonLabels"]["cluster"] == at
    assert got.document["externalURL"].startswith(page)
    assert "T0SECRET" not in process.output()


@pytest.mark.parametrize("command", ["broker", "cluster"])
def test_a_webhook_needs_the_page(run: Run, command: str) -> None:
    for option in (("--webhook", "https://chat.example.com/"), ("--webhook-on", "lag=3")):
        ran = run(command, *option)
        assert (ran.code, f"{option[0]} needs the watcher: add --web, such as --web 127.0.0.1:9464." in ran.err) == (
            2,
            True,
        )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--webhook-on", "lag=5"), "--webhook-on chooses what a webhook receives: name one by --webhook."),
        (
            ("--webhook", "hooks.slack.com/x"),
            "--webhook must be a URL with https or http, such as https://chat.example.com/hook.",
        ),
        (("--webhook", "https://127.0.0.1/", "--webhook-on", "x"), "--webhook-on has no event 'x'; the events are"),
        (("--once", "--webhook-on", "lag=5"), "--webhook-on is for a watcher that goes on"),
        (("--once", "--webhook", "https://127.0.0.1/"), "--webhook is for a watcher that goes on"),
    ],
)
def test_it_says_what_is_wrong(run: Run, arguments: tuple[str, ...], sentence: str) -> None:
    told = (
        run("watch", "--listen", "127.0.0.1:0", *arguments) if "--once" not in arguments else run("watch", *arguments)
    )
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"kohort: {sentence}")
