"""A member by librdkafka."""

from __future__ import annotations

import confluent_kafka

from tests.interop.mixed.clients.said import HEARTBEAT_MS, POLL_S, Owed, Pause, Said, Spot, first, spots
from tests.interop.mixed.kinds import Place


def run(place: Place, said: Said) -> None:
    """Until SIGTERM."""
    pause = Pause(place.choices.pause_ms)
    owed = Owed()
    unsaid: list[tuple[Spot, int, bytes | None]] = []
    is_member = True
    """Whether the coordinator knows it, as far as its answers to commits tell."""

    def say_read() -> None:
        if unsaid:
            said.read(unsaid)
            owed.add((spot, offset) for spot, offset, _ in unsaid)
            unsaid.clear()

    def settle() -> None:
        nonlocal is_member
        say_read()
        if owed.ends:
            offsets = [
                confluent_kafka.TopicPartition(topic, number, end, metadata=place.choices.note)
                for (topic, number), end in owed.ends.items()
            ]
            try:
                done = consumer.commit(offsets=offsets, asynchronous=False)
                refused = [partition.error for partition in done or () if partition.error]
                said.committed(RuntimeError(str(refused)) if refused else None)
                owed.ends.clear()
            except confluent_kafka.KafkaException as error:
                said.committed(error)
                is_member &= error.args[0].code() != confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID

    def assigned(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        nonlocal is_member
        is_member = True
        say_read()  # of partitions that may be given back to it: they are read anew
        said.assigned(spots(partitions))
        if pause.begins():
            consumer.assign(partitions)
            consumer.pause(first(partitions))

    def revoked(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        # Called inside poll, while records of the polls before are still in hand.
        settle()
        owed.forget(spots(partitions))
        # A commit can wait until the coordinator can be reached, longer than the session. Others have them then.
        (said.revoked if is_member else said.lost)(spots(partitions))

    def lost(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        say_read()  # of the polls before, as in `revoked`
        owed.forget(spots(partitions))
        said.lost(spots(partitions))

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": place.bootstrap,
            "client.id": place.name,
            **(place.login.librdkafka() if place.login else {}),
            "group.id": place.group,
            # librdkafka's word for none.
            "auto.offset.reset": place.choices.reset.replace("none", "error"),
            "topic.metadata.refresh.interval.ms": place.choices.metadata_ms,
            "enable.auto.commit": False,
            **(
                {"group.protocol": "consumer", "group.remote.assignor": place.strategy}
                if place.choices.protocol == "consumer"
                else {
                    "partition.assignment.strategy": place.strategy,
                    "heartbeat.interval.ms": HEARTBEAT_MS,
                    "session.timeout.ms": place.session_ms,
                }
            ),
            **({"group.instance.id": place.choices.instance} if place.choices.instance else {}),
        }
    )
    consumer.subscribe(
        # librdkafka takes a name that begins so for an expression.
        [f"^{place.topic}" if place.choices.pattern else place.topic],
        on_assign=assigned,
        on_revoke=revoked,
        on_lost=lost,
    )
    while not said.stopping.is_set():
        record = consumer.poll(POLL_S)
        while record is not None:
            error = record.error()
            if error is not None and error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                said.no_offset()
                said.stopping.set()
                break
            topic, number, offset = record.topic(), record.partition(), record.offset()
            assert error is None and topic and number is not None and offset is not None, error
            unsaid.append(((topic, number), offset, record.value()))
            record = consumer.poll(0) if len(unsaid) < 500 else None
        settle()
        if pause.ends():
            consumer.resume(first(consumer.assignment()))
    said.leaves(is_member=is_member)
    consumer.close()
