"""A Spark job on a secured broker, with the ACLs that docs/security.md lists for it, and without one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort import NewTopic, blocking
from kohort.client import Acl, AclFilter, Operation, PatternType, Permission, ResourcePattern, ResourceType
from kohort.demo.access import ADMIN, SPARK, secured_access
from tests.interop.kohort import running_kohort
from tests.test_security_document import acls_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(200)]


@dataclass
class Job:
    """The job's options, and the administrator that allows it something."""

    options: dict[str, str]
    admin: blocking.Admin
    login: Any
    """The options of the administrator's clients."""
    directory: Path
    runs: int = 0

    def run(self, spark: SparkSession, **sink: str) -> None:
        """Read what is new in `orders` as a member of `reports`, and write it to `totals`."""
        self.runs += 1
        place = str(self.directory / f"checkpoint-{self.runs}")
        read = spark.readStream.format("kohort").options(**self.options).option("checkpointLocation", place)
        read = read.option("subscribe", "orders").option("kafka.group.id", "reports").option("groupMode", "member")
        orders = read.option("startingOffsets", "earliest").load().select("key", "value")
        write = orders.writeStream.format("kohort").options(**self.options).options(topic="totals", **sink)
        query = write.option("checkpointLocation", place).trigger(availableNow=True).start()
        try:
            query.awaitTermination(100)
        finally:
            query.stop()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    directory = tmp_path_factory.mktemp("secured")
    access = secured_access(directory / "logins", directory / "data")
    store = ("--data", str(directory / "data"), *access.of_broker)
    with running_kohort(*store, listen="SASL_SSL://127.0.0.1:0", group_initial_rebalance_delay_ms="0") as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap}
        options |= {f"kafka.{name}": value for name, value in access.of_client(SPARK).items()}
        login = access.of_client(ADMIN)
        with blocking.Admin(bootstrap_servers=broker.bootstrap, **login) as admin:
            admin.create_topics([NewTopic("orders", 1), NewTopic("totals", 1)])
            with blocking.Producer(bootstrap_servers=broker.bootstrap, **login) as producer:
                for number in range(10):
                    producer.send("orders", b"%d" % number)
                producer.flush()
            yield Job(options, admin, login, directory)


def listed() -> list[Acl]:
    """The ACLs of the document."""
    found = []
    for command in acls_of("spark"):
        given = dict(zip(command[2::2], command[3::2], strict=True))
        kind = ResourceType.TOPIC if "--topic" in given else ResourceType.GROUP
        pattern = ResourcePattern(kind, given.get("--topic") or given["--group"], PatternType.LITERAL)
        operation = Operation[given["--operation"].upper()]
        found.append(Acl(pattern, given["--allow-principal"], "*", operation, Permission.ALLOW))
    return found


def test_a_job_works_with_the_listed_acls_and_without_one_fails_with_a_sentence(spark: SparkSession, job: Job) -> None:
    acls = listed()
    assert len(acls) == 3
    for missing in acls:
        job.admin.delete_acls([AclFilter()])
        job.admin.create_acls([acl for acl in acls if acl != missing])
        with pytest.raises(Exception, match="AUTHORIZATION_FAILED") as refused:
            job.run(spark)
        name = missing.pattern.name
        sentences = [line for line in str(refused.value).splitlines() if "AUTHORIZATION_FAILED" in line]
        # A producer receives its id before it names a topic.
        expected = "may write to no topic" if name == "totals" else name
        assert any(expected in line for line in sentences), (missing, sentences)
    job.admin.create_acls(acls)
    job.run(spark)
    job.admin.create_acls([Acl(acls[-1].pattern, "User:spark", "*", Operation.READ, Permission.ALLOW)])
    rows = spark.read.format("kohort").options(**job.options).option("subscribe", "totals").load()
    assert sorted(int(row.value) for row in rows.select("value").collect()) == list(range(10))


def test_a_job_in_transactions_needs_the_ids_that_begin_with_its_name(spark: SparkSession, job: Job) -> None:
    name = {"kafka.transactional.id": "totals-of-orders"}
    ids = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "totals-of-orders-", PatternType.PREFIXED)
    job.admin.delete_acls([AclFilter()])
    job.admin.create_acls(listed())
    with blocking.Producer(bootstrap_servers=job.options["kafka.bootstrap.servers"], **job.login) as producer:
        producer.send("orders", b"for a transaction").result()
    with pytest.raises(Exception, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED: totals-of-orders-0-0"):
        job.run(spark, **name)
    job.admin.create_acls([Acl(ids, "User:spark", "*", Operation.WRITE, Permission.ALLOW)])
    job.run(spark, **name)
    job.admin.create_acls([Acl(listed()[-1].pattern, "User:spark", "*", Operation.READ, Permission.ALLOW)])
    rows = spark.read.format("kohort").options(**job.options).option("subscribe", "totals")
    found = rows.option("kafka.isolation.level", "read_committed").load().select("value").collect()
    assert [row.value for row in found].count(b"for a transaction") == 1
