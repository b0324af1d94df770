"""Options of the client for every command: a file as Kafka's tools take it, -X, and environment variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.security.conftest import secured_kafka  # noqa: F401  (a fixture)
from tests.client.security.secured_kafka import PASSWORD, USER, SecuredKafka


def run(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [sys.executable, "-m", "kohort", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, input=stdin, timeout=350)


@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        (["-X", "sasl.pasword=hunter-2"], {}, "sasl.pasword is not an option of the client."),
        (["-X", "acks"], {}, "-X takes NAME=VALUE, not 'acks'."),
        ([], {"KOHORT_SASL_PASWORD": "hunter-2"}, "sasl_pasword is not an option of the client."),
        ([], {"KOHORT_SASL_PASSWORD": "hunter-2"}, "sasl_plain_password has no effect with security_protocol"),
        (["--command-config", "/nowhere/c.properties"], {}, "--command-config /nowhere/c.properties cannot be read"),
    ],
)
def test_wrong_options_end_in_one_sentence(arguments: list[str], variables: dict[str, str], sentence: str) -> None:
    # Nothing connects: the options are wrong before that.
    done = run("topic", "list", "--bootstrap", "127.0.0.1:1", *arguments, **variables)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert sentence in done.stderr and "hunter" not in done.stderr


def test_an_option_comes_before_the_file_and_the_file_before_variables(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=of_the_file\n")
    variable = {"KOHORT_SECURITY_PROTOCOL": "of_a_variable"}
    filed = ("--command-config", str(file))
    for arguments, taken in (
        ((*filed, "-X", "security.protocol=of_an_option"), "OF_AN_OPTION"),
        (filed, "OF_THE_FILE"),
        ((), "OF_A_VARIABLE"),
    ):
        done = run("topic", "list", "--bootstrap", "127.0.0.1:1", *arguments, **variable)
        assert done.returncode == 2 and f"security_protocol is '{taken}'" in done.stderr, done.stderr


def login(kafka: SecuredKafka) -> dict[str, str]:
    return {
        "KOHORT_BOOTSTRAP": kafka.address("SASL_SSL"),
        "KOHORT_SECURITY_PROTOCOL": "SASL_SSL",
        "KOHORT_SSL_CAFILE": kafka.certificates.cafile,
        "KOHORT_SASL_MECHANISM": "PLAIN",
        "KOHORT_SASL_USERNAME": USER,
        "KOHORT_SASL_PASSWORD": PASSWORD,
    }


@pytest.mark.kafka
def test_commands_log_in_with_a_file_with_variables_and_with_single_options(
    secured_kafka: SecuredKafka,  # noqa: F811
    tmp_path: Path,
) -> None:
    quoted = PASSWORD.replace('"', '\\\\"')
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers={secured_kafka.address('SASL_SSL')}\n"
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secured_kafka.certificates.cafile}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{USER}" password="{quoted}";\n'
        "client.dns.lookup=use_all_dns_ips\n"
    )
    by_file = run("topic", "create", "t-cli", "--partitions", "1", "--command-config", str(file))
    assert by_file.returncode == 0, by_file.stderr
    assert f"{file}: client.dns.lookup has no effect" in by_file.stderr

    variables = login(secured_kafka)
    by_variables = run("topic", "list", **variables)
    assert (by_variables.returncode, by_variables.stderr) == (0, "") and "t-cli" in by_variables.stdout
    assert run("produce", "t-cli", stdin="hello\n", **variables).returncode == 0
    consumed = run("consume", "t-cli", "--from-beginning", "--group", "g-cli", "--max", "1", **variables)
    assert (consumed.returncode, consumed.stdout) == (0, "hello\n"), consumed.stderr

    wrong = run("topic", "list", "-X", "sasl.password=hunter-2", **variables)
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1
    assert "rejects user 'alice' with its password (PLAIN)" in wrong.stderr and "hunter" not in wrong.stderr


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_analysis_logs_in_on_the_driver_and_in_tasks(
    secured_kafka: SecuredKafka,  # noqa: F811
    tmp_path: Path,
) -> None:
    variables = login(secured_kafka)
    run("topic", "create", "t-analysed", "--partitions", "1", **variables)
    assert run("produce", "t-analysed", stdin="hello\n", **variables).returncode == 0
    consume = ["consume", "t-analysed", "--from-beginning", "--group", "g-analysed", "--max", "1"]
    assert run(*consume, **variables).returncode == 0
    out = tmp_path / "analysis"
    done = run("analyse", "--master", "local[1]", "--out", str(out), **variables)
    assert done.returncode == 0, done.stderr
    assert (out / "report.html").is_file()
