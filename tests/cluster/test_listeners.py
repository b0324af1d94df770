"""A cluster with several listeners, whose settings contain secrets."""

from __future__ import annotations

import signal
import ssl
from pathlib import Path

from kohort.properties import format_properties
from tests.broker.security.certificates import new_certificates
from tests.cluster.conftest import StartCluster

SECRET = "pencil-4711"


def test_no_secret_is_in_a_command_line_and_listeners_keep_their_ports(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    certificates = new_certificates(tmp_path)
    key = certificates.key_store().read_text()
    parts = key.partition("-----BEGIN CERTIFICATE-----")
    file = tmp_path / "server.properties"
    secrets = {
        "ssl.keystore.key": parts[0],
        "ssl.keystore.certificate.chain": parts[1] + parts[2],
        "listener.name.clients.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule"
        f' required user_alice="{SECRET}";',
    }
    file.write_text(
        format_properties(
            {
                **secrets,
                "listener.security.protocol.map": "OWN:SSL,CLIENTS:SASL_SSL",
                "sasl.enabled.mechanisms": "PLAIN",
            }
        )
    )
    listen = ["--listen", "OWN://127.0.0.1:0,CLIENTS://127.0.0.1:0"] * 2
    with start_cluster("--config", str(file), "--restart", *listen, brokers=2) as cluster:
        before = cluster.image.nodes
        assert [[name for name, _, _ in node.endpoints] for node in before.values()] == [["OWN", "CLIENTS"]] * 2
        processes = [cluster.process.pid, cluster.process_id(1), cluster.process_id(2)]
        for process in processes:
            shown = Path(f"/proc/{process}/cmdline").read_text() + Path(f"/proc/{process}/environ").read_text()
            assert SECRET not in shown and "PRIVATE KEY" not in shown
        cluster.signal(2, signal.SIGKILL)
        cluster.without(2)
        cluster.whole(2)
        assert cluster.image.nodes[2].endpoints == before[2].endpoints
        _, host, port = before[2].endpoints[1]
        offered = ssl.get_server_certificate((host, port), ca_certs=str(certificates.ca_file), timeout=10)
        assert offered.strip() in key
    output = cluster.process.output()
    assert SECRET not in output
