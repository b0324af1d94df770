"""Source and sink over TLS and SASL, against Apache Kafka: on the driver, in tasks, and as a member."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort import NewTopic, blocking
from kohort.client import AuthenticationError
from kohort.errors import KafkaError
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from pyspark_kohort.net import BlockingCluster
from pyspark_kohort.options import Broker, parse
from tests.client.security.conftest import secured_kafka  # noqa: F401  (a fixture)
from tests.client.security.secured_kafka import PASSWORD, SESSION_MS, USER, SecuredKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

_SHOWN = PASSWORD.split(",")[0]


def jaas(password: str = PASSWORD) -> str:
    quoted = password.replace('"', '\\"')
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{USER}" password="{quoted}";'


def login(kafka: SecuredKafka, password: str = PASSWORD) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.address("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": Path(kafka.certificates.cafile).read_text(),
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": jaas(password),
    }


def broker(given: dict[str, str]) -> Broker:
    return parse({"subscribe": "t", **given}, streaming=False).broker


def test_options_show_no_password_and_reach_the_tasks(secured_kafka: SecuredKafka) -> None:  # noqa: F811
    given = broker(login(secured_kafka))
    assert "[hidden]" in repr(given) and _SHOWN not in repr(given)
    shipped: Broker = pickle.loads(pickle.dumps(given))
    assert shipped == given and hash(shipped) == hash(given)
    cluster = BlockingCluster(shipped)
    cluster.all_partitions()
    cluster.close()


def test_a_wrong_password_is_not_tried_again(secured_kafka: SecuredKafka) -> None:  # noqa: F811
    cluster = BlockingCluster(broker(login(secured_kafka, "hunter-2")))
    began = time.monotonic()
    with pytest.raises(AuthenticationError, match="rejects user 'alice' with its password") as refused:
        cluster.all_partitions()
    assert "hunter" not in str(refused.value)
    assert time.monotonic() - began < 5
    cluster.close()


def test_a_certificate_of_another_authority_is_rejected(secured_kafka: SecuredKafka) -> None:  # noqa: F811
    other = (secured_kafka.certificates.directory / "other-ca.pem").read_text()
    cluster = BlockingCluster(broker(login(secured_kafka) | {"kafka.ssl.truststore.certificates": other}))
    with pytest.raises(KafkaError, match="is not issued by a trusted authority"):
        cluster.all_partitions()
    cluster.close()


def test_a_blocking_connection_authenticates_again_between_pipelined_requests(
    secured_kafka: SecuredKafka,  # noqa: F811
) -> None:
    given = {
        "kafka.bootstrap.servers": secured_kafka.address("SHORT"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanisms": "PLAIN",
        "kafka.sasl.username": USER,
        "kafka.sasl.password": PASSWORD,
    }
    cluster = BlockingCluster(broker(given))
    connection = cluster.any_connection()
    connection.send(MetadataRequest(topics=[]))
    until = time.monotonic() + 2.5 * SESSION_MS / 1000
    answered = 0
    while time.monotonic() < until:  # one request is always under way
        connection.send(MetadataRequest(topics=[]))
        connection.receive(MetadataResponse)
        answered += 1
        time.sleep(0.01)
    connection.receive(MetadataResponse)
    assert answered > 20
    cluster.close()


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_query_writes_and_a_member_reads_over_tls(
    spark: SparkSession,
    secured_kafka: SecuredKafka,  # noqa: F811
    tmp_path: Path,
) -> None:
    options, topic = login(secured_kafka), "t-spark-secured"
    of_client: dict[str, Any] = {name.removeprefix("kafka."): value for name, value in options.items()}
    with blocking.Admin(**of_client) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
    rows = spark.range(10).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    rows.write.format("kohort").mode("append").options(**options).option("topic", topic).save()

    batch = spark.read.format("kohort").options(**options).option("subscribe", topic).load()
    assert sorted(int(row.value) for row in batch.select("value").collect()) == list(range(10))
    plan = batch._jdf.queryExecution().toString()
    assert _SHOWN not in plan and "sasl.jaas" not in plan

    place = {"checkpointLocation": str(tmp_path / "checkpoint")}
    stream = spark.readStream.format("kohort").options(**options, **place)
    stream = stream.option("subscribe", topic).option("kafka.group.id", topic).option("startingOffsets", "earliest")
    writer = stream.load().writeStream.format("parquet").option("path", str(tmp_path / "out")).options(**place)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 10
    progress = "".join(str(each) for each in query.recentProgress)
    assert _SHOWN not in progress
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert not file.is_file() or _SHOWN.encode() not in file.read_bytes()
