"""The page of `kohort watch`, and that of a broker and a cluster from inside, as processes."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.config import WATCH_LISTENER, WatchLogin
from kohort.errors import ConfigError
from kohort.security import Secret
from tests.cli.conftest import Run, succeeded
from tests.interop.kohort import KohortBroker, kohort
from tests.interop.process import ServerProcess

READY_S = 60.0
SECURED = (
    *("--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    *("--set", "super.users=User:admin"),
)


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[tuple[str, str, ServerProcess]]:
    """The address of the broker, that of its page, and the process."""
    process = ServerProcess(kohort(*arguments))
    try:
        first = process.wait_for(r"^ready (\d\S+)$", timeout=READY_S)
        page = process.wait_for(r"^ready (http\S+)$", timeout=READY_S)
        yield first[1], page[1], process
    finally:
        process.kill()


def fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def emptied(url: str, group_id: str) -> Any:
    """Follow the events until the page shows that a member came and went, and return the group's summary."""
    with urllib.request.urlopen(f"{url}/events", timeout=30) as events:
        for line in events:
            found = [group for group in fetched(f"{url}/api/groups")["groups"] if group["group"] == group_id]
            if found and found[0]["state"] == "Empty" and found[0]["rebalances_1h"] == 2:
                return found[0]
            assert line
    raise AssertionError("the stream ended")


def consumed(run: Run, at: str, name: str) -> None:
    succeeded(run("topic", "create", name, bootstrap=at))
    succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
    succeeded(run("consume", name, "--group", name, "--from-beginning", "--max", "2", bootstrap=at))


def test_a_broker_serves_the_page_from_inside(run: Run, name: str) -> None:
    with started("broker", "--listen", "127.0.0.1:0", "--memory", "--web", "127.0.0.1:0") as (at, url, _):
        consumed(run, at, name)
        group = emptied(url, name)
        assert (group["type"], group["last_rebalance"]["cause"]) == ("classic", "member left or expired")
        assert fetched(f"{url}/api/groups")["cluster"]["bootstrap"] == at


def test_the_page_of_a_broker_needs_no_password_of_its_clients() -> None:
    arguments = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--memory", *SECURED, "--web", "127.0.0.1:0")
    with started("broker", *arguments) as (_, url, process):
        with urllib.request.urlopen(f"{url}/events", timeout=30) as events:
            while fetched(f"{url}/healthz")["sources"] != [{"kind": "log", "state": "following"}]:
                assert events.readline()
        assert "kohort-watch-" not in process.output()


def test_a_page_whose_port_is_taken_does_not_end_the_broker(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = ServerProcess(kohort("broker", "--listen", "127.0.0.1:0", "--memory", "--web", f"127.0.0.1:{port}"))
        try:
            at = process.wait_for(r"^ready (\d\S+)$", timeout=READY_S)[1]
            process.wait_for(
                r"The page is not served: .*127\.0\.0\.1:\d+: Address already in use: choose another port",
                timeout=READY_S,
            )
            succeeded(run("topic", "list", bootstrap=at))
        finally:
            process.kill()


def test_a_cluster_serves_the_page_of_all_its_brokers(run: Run, name: str) -> None:
    with started("cluster", "--brokers", "2", "--web", "127.0.0.1:0") as (at, url, _):
        consumed(run, at, name)
        assert emptied(url, name)["members"] == 0


def test_the_watch_command_serves_a_page_and_follows(run: Run, kohort_broker: KohortBroker, name: str) -> None:
    process = ServerProcess(kohort("watch", "--listen", "127.0.0.1:0", "-b", kohort_broker.bootstrap))
    try:
        url = process.wait_for(r"^ready (http\S+)$", timeout=READY_S)[1]
        consumed(run, kohort_broker.bootstrap, name)
        assert emptied(url, name)["members"] == 0
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--listen", "0.0.0.0:0"), "Other machines could read the page on 0.0.0.0: set a token"),
        (("--listen", ":0"), "Other machines could read the page on all addresses: set a token"),
        (("--listen", "page"), "--listen takes HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464, not 'page'."),
        (("--token-file", "{short}"), "The token must have at least 16 characters"),
        (("--token-file", "{none}"), "cannot be read: No such file or directory."),
        (("--tls-key", "{short}"), "give --tls-cert, too."),
        (("--tls-cert", "{short}"), "cannot be used with its key"),
        (("--json",), "--json prints one snapshot: add --once."),
        (("--once", "--listen", "127.0.0.1:0"), "--listen is for the page, and --once shows none"),
        (("--once", "--metrics-names", "kminion"), "--metrics-names is for the page, and --once shows none"),
        (("--once", "--metrics-partitions", "50000"), "--metrics-partitions is for the page, and --once shows none"),
    ],
)
def test_options_that_cannot_be_followed(run: Run, tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    short = tmp_path / "short"
    short.write_text("secret")
    filled = [each.format(short=short, none=tmp_path / "none") for each in arguments]
    ran = run("watch", *filled)
    assert ran.code == 2
    assert sentence in ran.err
    assert "secret" not in ran.err


def test_a_broker_of_several_serves_no_page(run: Run, tmp_path: Path) -> None:
    ran = run("broker", "--shared", "--data", str(tmp_path), "--web", "127.0.0.1:0")
    assert (ran.code, "run kohort watch for all of them" in ran.err) == (2, True)


def test_the_listener_of_the_page_keeps_other_settings() -> None:
    login = WatchLogin("watcher", Secret("one-time"))
    settings = login.settings({"super.users": "User:admin", "authorizer.class.name": "any", "num.partitions": "3"})
    assert settings["super.users"] == "User:admin;User:watcher"
    assert settings["num.partitions"] == "3"
    assert "super.users" not in login.settings({})
    assert "one-time" not in repr(login)
    with pytest.raises(ConfigError, match="choose another"):
        login.settings({f"listener.name.{WATCH_LISTENER.lower()}.sasl.enabled.mechanisms": "PLAIN"})


@pytest.mark.parametrize(
    "arguments",
    [
        "watch --bootstrap 127.0.0.1:9092",
        "broker --memory --listen 127.0.0.1:0 --web 127.0.0.1:0",
        "cluster --web 127.0.0.1:0",
        "gateway --upstream 127.0.0.1:9092 --listen 127.0.0.1:0 --web 127.0.0.1:0",
    ],
)
@pytest.mark.parametrize("module", ["starlette", "uvicorn"])
def test_a_page_without_its_packages_says_what_to_install(module: str, arguments: str) -> None:
    program = f"import sys; sys.modules[{module!r}] = None; from kohort.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments.split()], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kohort: The page needs starlette and uvicorn: pip install 'kohort[web]'.\n"
