"""Settings and listeners of a broker on the command line, in a file, and in both."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.cli.broker_settings import ListenAddress, read_broker_settings, read_listen
from kohort.errors import ConfigError
from tests.cli.conftest import Run
from tests.interop.kohort import running_kohort
from tests.interop.process import until


def test_an_address_may_name_its_listener() -> None:
    assert read_listen("127.0.0.1:1") == ListenAddress(None, "127.0.0.1", 1)
    assert str(read_listen("127.0.0.1:1")) == "PLAINTEXT://127.0.0.1:1"
    assert read_listen(" clients://[::1]:0 ") == ListenAddress("CLIENTS", "::1", 0)
    assert str(read_listen("sasl_ssl://:9093")) == "SASL_SSL://:9093"
    for wrong in ("://h:1", "SSL://h", "SSL:h:1", "SSL://h:x"):
        with pytest.raises(ConfigError, match="--listen takes HOST:PORT"):
            read_listen(wrong)


def test_a_secret_in_an_argument_is_noted_without_its_value(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("ssl.key.password=hunter-1\nnum.partitions=3\nbroker.rack=a\n")
    login = "listener.name.own.plain.sasl.jaas.config"
    found = read_broker_settings(file, [f"{login}=hunter-2", "num.partitions=6"])
    assert found == {"ssl.key.password": "hunter-1", "num.partitions": "6", "broker.rack": "a", login: "hunter-2"}
    noted = capfd.readouterr().err
    assert noted.count("\n") == 1 and f"can read --set {login}: put it into a file for --config" in noted
    assert "hunter" not in noted


@pytest.mark.parametrize("command", ["broker --memory", "cluster"])
def test_a_variable_names_the_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partition=3\nadvertised.listeners=h:1\n")
    monkeypatch.setenv("KOHORT_BROKER_CONFIG", str(file))
    told = run(*command.split(), "--listen", "127.0.0.1:0")
    assert told.code == 2 and ("num.partition" in told.err or "--listen is given 1 times" in told.err)


def test_a_broker_listens_on_each_address_and_not_on_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://127.0.0.1:1\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT")
    listen = ("--listen", "127.0.0.1:0", "--listen", "b://127.0.0.1:0")
    with running_kohort(*listen, "--config", str(file)) as broker:

        def listening() -> list[str]:
            return [line for line in broker.process.stderr if "listening on" in line]

        until(20.0, "two lines about listeners", lambda: len(listening()) == 2)
        assert not any("127.0.0.1:1 " in line for line in listening())
        assert broker.bootstrap in listening()[0]
