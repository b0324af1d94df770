"""A usage error is one sentence and exit code 2; the help of a command describes all that it can do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from kohort.testing import Broker
from tests.cli.conftest import Run
from tests.interop.kohort import kohort

COMMANDS = [
    "broker",
    "fake",
    "topic list",
    "topic create",
    "topic describe",
    "topic partitions",
    "topic config show",
    "topic config set",
    "topic config unset",
    "topic delete",
    "group list",
    "group describe",
    "group reset-offsets",
    "group delete-offsets",
    "group remove-member",
    "group delete",
    "user add",
    "user list",
    "user delete",
    "produce",
    "consume",
    "rebalances",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(run: Run, command: str) -> None:
    told = run(*command.split(), "--help")
    assert told.code == 0 and told.out.startswith(f"Usage: kohort {command}")
    assert re.search(rf"Example: .*kohort {command}", " ".join(told.out.split()))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "Missing command"),
        ("brocker", "No such command 'brocker'"),
        ("brocker", "(kohort --help)"),
        ("broker --frobnicate", "No such option: --frobnicate (kohort broker --help)"),
        ("group describ x", "No such command 'describ'. Did you mean 'describe'? (kohort group --help)"),
        ("group describe", "Missing argument 'GROUP'. (kohort group describe --help)"),
        ("produce", "name a topic, as in kohort produce orders. (kohort produce --help)"),
        (
            "broker --listen here",
            "--listen takes HOST:PORT, such as 127.0.0.1:9092, [::1]:9092 or :9092, or NAME://HOST",
        ),
        ("broker --listen 127.0.0.1:99999", "--listen takes HOST:PORT"),
        ("broker --listen ://127.0.0.1:1", "or NAME://HOST:PORT, such as SASL_SSL://:9093, not '://127.0.0.1:1'"),
        ("broker --memory --listen CLIENTS://:0", "no protocol for the listener CLIENTS: add CLIENTS:PLAINTEXT"),
        ("broker --memory --listen SSL://:0", "The listener SSL needs a certificate: set ssl.keystore.location"),
        ("broker --memory --listen :1 --listen :2", "names PLAINTEXT twice: each listener needs its own name"),
        ("broker --memory --listen SSL://0.0.0.0:1", "--set advertised.listeners=SSL://HOST:1, or listen on all"),
        ("broker --memory --listen :0 --set listeners=:0", "--listen and --set listeners contradict each other"),
        ("cluster --set listeners=:0", "listeners would be the same for all brokers: give --listen for each"),
        ("cluster --brokers 1 --listen SSL://0.0.0.0:1", "with --advertise=SSL://HOST:1, or listen on all"),
        ("broker --memory --listen 0.0.0.0:9092", "with --set advertised.listeners=HOST:9092, or listen on all"),
        ("broker --memory --listen [::]:9092", "No client can connect to ::."),
        ("cluster --brokers 1 --listen 0.0.0.0:9092", "with --advertise=HOST:9092, or listen on all interfaces"),
        ("cluster --advertise a:1 --advertise b:2", "--advertise is given 2 times for 3 brokers: give it for each"),
        ("cluster --brokers 1 --advertise [::]:1", "advertised.listeners cannot be [::]:1"),
        ("cluster --set advertised.listeners=a:1", "the same for all brokers: give --advertise for each"),
        ("broker --memory --data x", "--memory and --data contradict each other"),
        ("broker --memory --set num.partitions", "--set takes NAME=VALUE, not 'num.partitions'"),
        ("broker --memory --set num.partition=3", "num.partition"),
        ("broker --memory --listen 127.0.0.1:0 --config /no/such/file", "/no/such/file"),
        ("broker --node-id x", "Invalid value for '--node-id'"),
        ("topic create", "Missing argument"),
        ("topic create x --partitions many", "Invalid value for '--partitions'"),
        ("topic create x --config retention", "--config takes NAME=VALUE"),
        ("topic list --bootstrap nowhere", "'nowhere', which is not host:port"),
        ("consume x --max 0", "Invalid value for '--max'"),
        ("consume x --protocol modern", "Invalid value for '--protocol'"),
        ("topic list", "No broker answers at 127.0.0.1:1 (Connection refused): start one with 'kohort broker'"),
        ("topic list --bootstrap a..b:1", "No broker answers at a..b:1 (no valid name of a host)"),
        ("produce x", "No broker answers at 127.0.0.1:1"),
        ("consume x", "No broker answers at 127.0.0.1:1"),
        ("rebalances", "No broker answers at 127.0.0.1:1"),
        ("group describe x", "No broker answers at 127.0.0.1:1"),
        ("topic partitions x", "Missing option '--partitions'"),
        ("topic config set x retention.ms", "takes NAME=VALUE, not 'retention.ms'"),
        ("topic config unset x", "Missing argument"),
        ("user add alice", "There is no terminal to ask for the password: use --password-stdin or KOHORT_PASSWORD"),
        ("user add alice --password-stdin", "The password cannot be empty"),
        ("user add alice --iterations 4095", "Invalid value for '--iterations'"),
        ("user add alice --mechanism PLAIN", "Invalid value for '--mechanism'"),
        ("user list --data x --bootstrap y:1", "--bootstrap and --data contradict each other"),
        ("user list", "No broker answers at 127.0.0.1:1"),
        ("group delete-offsets x", "Specify offsets: --topic TOPIC"),
        ("group remove-member x", "Specify members: either member ids, --instance ID, or --all"),
        ("group remove-member x m --all", "Specify members: either member ids, --instance ID, or --all"),
        ("group reset-offsets x --to-earliest", "Specify offsets: either --topic TOPIC"),
        ("group reset-offsets x --to-earliest --topic t --all-topics", "Specify offsets: either --topic TOPIC"),
        ("group reset-offsets x --topic t", "No target given: give one of --to-earliest, "),
        (
            "group reset-offsets x --topic t --to-latest --shift-by 0",
            "--to-latest and --shift-by contradict each other",
        ),
        ("group reset-offsets x --topic t:a --to-latest", "--topic takes TOPIC or TOPIC:0,1, not 't:a'"),
        ("group reset-offsets x --topic t:3-1 --to-latest", "--topic takes TOPIC or TOPIC:0,1, not 't:3-1'"),
        ("group reset-offsets x --topic :0 --to-latest", "--topic takes TOPIC or TOPIC:0,1, not ':0'"),
        ("group reset-offsets x --topic t --to-offset -3", "Invalid value for '--to-offset'"),
        ("group reset-offsets x --topic t --to-datetime soon", "--to-datetime takes a time such as"),
        ("group reset-offsets x --topic t --by-duration 1h", "--by-duration takes an ISO 8601 duration such as"),
    ],
)
def test_a_mistake_is_one_sentence(run: Run, arguments: str, says: str) -> None:
    told = run(*arguments.split())
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("kohort: ") and says in told.err
    assert len(told.err.splitlines()) == 1


def test_the_version_is_that_of_the_package(run: Run) -> None:
    told = run("--version")
    assert (told.code, told.out, told.err) == (0, f"kohort {version('kohort')}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    def ask(instruction: str, *words: str) -> str:
        environment = {
            "_KOHORT_COMPLETE": f"{instruction}_{shell}",
            "COMP_WORDS": " ".join(["kohort", *words]),  # bash
            "COMP_CWORD": str(len(words)),
            "_TYPER_COMPLETE_ARGS": " ".join(["kohort", *words]),  # zsh and fish
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        command = kohort()
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, env={**os.environ, **environment}
        )
        return done.stdout

    assert "_KOHORT_COMPLETE=complete_" in ask("source")
    assert "rebalances" in ask("complete", "reb")
    assert "--key-separator" in ask("complete", "produce", "--key")


@pytest.mark.parametrize("arguments", [["--help"], ["produce", "--help"], ["consume", "--help"]])
def test_help_loads_few_modules(arguments: list[str]) -> None:
    # The start takes 0.11 s of CPU time, a third of it for typer. A module that is not listed here
    # belongs into the command that needs it.
    program = f"""
import sys
before = set(sys.modules)
from kohort.cli.app import run
run({arguments!r})
print(*(set(sys.modules) - before), sep="\\n", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stderr.split())
    ours = {name for name in loaded if name.startswith("kohort.") and not name.startswith("kohort.cli")}
    assert ours == {"kohort.errors", "kohort.interruption", "kohort.model", "kohort.printable", "kohort.properties"}
    packages = {name.partition(".")[0] for name in loaded} - {"kohort"}
    assert packages - sys.stdlib_module_names <= {"annotated_doc", "shellingham", "typer"}
    slow = {"asyncio", "concurrent", "email", "http", "multiprocessing", "sqlite3", "ssl", "unittest", "xml"}
    assert packages & slow == set()


def test_a_port_in_use_is_one_sentence() -> None:
    with Broker() as broker:
        port = broker.port
        command = kohort("broker", "--memory", "--listen", broker.bootstrap_servers)
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == 2 and len(told.stderr.splitlines()) == 1, told.stderr
    assert str(port) in told.stderr


def test_a_closed_pipe_is_not_an_error() -> None:
    with Broker(topics={"many": 1}) as broker:
        broker.topic("many").produce("x" * 99, *["y" * 99] * 20_000)
        command = f"{sys.executable} -m kohort consume many --from-beginning --bootstrap {broker.bootstrap_servers}"
        piped = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command} | head -n 1"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "x" * 99 + "\n", "")
