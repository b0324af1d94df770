"""The fixtures themselves: Apache Kafka starts, answers its own tools and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.kafka import ApacheKafka, run_tool
from tests.interop.process import until


@pytest.mark.kafka
def test_apache_kafka_answers_its_own_tools(apache_kafka: ApacheKafka) -> None:
    made = run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", apache_kafka.bootstrap),
        *("--create", "--topic", "orders", "--partitions", "3"),
    )
    assert "Created topic orders." in made
    # The controller answers once its record is committed; the broker makes the directories when it reads it.
    until(10.0, "the topic's directories", Path(apache_kafka.log_dir, "orders-2").is_dir)
