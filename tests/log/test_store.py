"""Behaviour of every store: in memory, in files and in PostgreSQL."""

from dataclasses import replace
from uuid import uuid4

import pytest

from kohort.errors import ConfigError
from kohort.log import Duplicate, LogStore, OffsetAndTime, OffsetOutOfRange, StaleLeaderEpoch, Topic
from kohort.wire.batches import Codec, Record, batches, crc_matches, encode_batch, read_header
from tests.log.logs import NOW, append, at, batch, flush, records, topic_in, values

HOUR = 3_600_000


def test_an_append_gets_its_offsets_at_once_and_is_read_only_when_settled(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    assert [append(log, b"a", b"b"), append(log, b"c")] == [0, 2]
    assert (log.start_offset, log.stable_offset, log.end_offset) == (0, 0, 3)
    assert log.read(0, 1000) == []
    pending = store.take()
    assert pending is not None
    append(log, b"late")
    store.sync(pending)
    assert log.stable_offset == 0
    store.settle(pending)
    assert (log.stable_offset, log.end_offset) == (3, 4)
    assert values(log) == [b"a", b"b", b"c"]
    flush(store)
    assert values(log) == [b"a", b"b", b"c", b"late"]


def test_nothing_to_take_is_none(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    assert store.take() is None
    append(log, b"a")
    flush(store)
    assert store.take() is None


def test_read_batches_have_their_offset_and_the_producers_checksum(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    append(log, b"a", b"b")
    sent = batch(b"c", b"d")
    crc = read_header(sent).crc
    log.append(sent, log.leader_epoch)
    flush(store)
    (part,) = log.read(2, 1 << 20)
    header = read_header(part)
    assert (header.base_offset, header.leader_epoch, header.crc) == (2, log.leader_epoch, crc)
    assert crc_matches(part, header)


@pytest.mark.parametrize("size", [10, 100_000])
def test_bytes_that_must_not_change_are_appended_too(store: LogStore, size: int) -> None:
    # A produce request's records are a view of what the connection received.
    log = store.partition(topic_in(store), 0)
    append(log, b"first")
    sent = bytes(batch(b"x" * size) + batch(b"y", b"z"))
    assert log.append(memoryview(sent), log.leader_epoch) == 1
    flush(store)
    assert values(log) == [b"first", b"x" * size, b"y", b"z"]
    assert read_header(sent).base_offset == 0


def test_a_read_holds_whole_batches_and_at_least_one(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    for number in range(50):
        append(log, b"%02d" % number * 50)
    flush(store)
    size = log.size // 50
    for limit, count in [(0, 1), (1, 1), (size, 1), (size + 1, 1), (2 * size - 1, 1), (2 * size, 2), (7 * size + 5, 7)]:
        got = [header.base_offset for part in log.read(10, limit) for _, header in batches(part)]
        assert got == list(range(10, 10 + count)), limit


def test_a_read_from_inside_a_batch_begins_with_that_batch(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    flush(store)
    assert [read_header(log.read(offset, 1)[0]).base_offset for offset in range(4)] == [0, 0, 0, 3]


def test_a_read_outside_the_log_names_its_range(store: LogStore) -> None:
    log = store.partition(topic_in(store), 1)
    for _ in range(3):
        append(log, b"a")
    flush(store)
    append(log, b"not settled")
    log.delete_before(1)
    assert log.read(3, 100) == []
    for offset in (-1, 0, 4, 2**40):
        with pytest.raises(OffsetOutOfRange, match=f"orders-1 holds offsets 1 to 3, not {offset}"):
            log.read(offset, 100)


def test_an_append_of_another_leader_epoch_is_refused(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    for epoch in (log.leader_epoch - 1, log.leader_epoch + 1):
        with pytest.raises(StaleLeaderEpoch):
            log.append(batch(b"a"), epoch)
    assert log.end_offset == 0


def test_segments_roll_by_size_and_reads_cross_them(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs={"segment.bytes": "1000"}), 0)
    sent = [b"%03d" % number * 30 for number in range(60)]
    for number, value in enumerate(sent):
        append(log, value)
        if number % 7 == 0:
            flush(store)
    flush(store)
    for limit in (1, 100, 500, 1500, 1 << 20):
        assert values(log, max_bytes=limit) == sent
    assert [values(log, offset)[0] for offset in range(60)] == sent
    assert sum(map(len, log.read(0, 1 << 20))) == log.size
    assert sum(map(len, log.read(0, 3000))) <= 3000


def test_a_batch_larger_than_a_segment_has_one_of_its_own(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs={"segment.bytes": "1000"}), 0)
    sent = [b"a", b"b" * 5000, b"c", b"d" * 5000]
    for value in sent:
        append(log, value)
    flush(store)
    assert values(log) == sent
    assert values(log, max_bytes=100) == sent


def test_many_small_batches_are_found_by_the_index(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    for number in range(3000):
        append(log, b"%d" % number, b"second", time=NOW + 10 * number)
    flush(store)
    for offset in (0, 1, 399, 3001, 5998, 5999):
        assert records(log, offset)[0].offset == offset
    assert log.find_time(NOW + 20_000) == OffsetAndTime(4000, NOW + 20_000, log.leader_epoch)
    assert len(records(log, 0, max_bytes=50_000)) == 6000


def test_a_time_is_found_inside_a_batch(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    append(log, b"a", b"b", b"c", time=NOW)
    append(log, b"d", b"e", time=NOW + 100)
    append(log, b"f", time=NOW + 50)
    flush(store)
    found = [log.find_time(NOW + after) for after in (-5, 0, 2, 3, 101, 102)]
    assert [record and (record.offset, record.timestamp - NOW) for record in found] == [
        (0, 0),
        (0, 0),
        (2, 2),
        (3, 100),
        (4, 101),
        None,
    ]
    assert log.find_max_time() == OffsetAndTime(4, NOW + 101, log.leader_epoch)


def test_a_time_is_found_in_compressed_batches(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    packed = encode_batch([Record(n, NOW + n, None, b"v") for n in range(100)], Codec.ZSTD)
    log.append(packed, log.leader_epoch)
    flush(store)
    assert log.find_time(NOW + 42) == OffsetAndTime(42, NOW + 42, log.leader_epoch)


def test_a_batch_whose_records_cannot_be_read_is_found_as_a_whole(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    broken = encode_batch([Record(n, NOW + n, None, b"v" * 50) for n in range(3)], Codec.ZSTD)
    broken[70] ^= 0xFF  # the broker would have refused the checksum
    log.append(broken, log.leader_epoch)
    flush(store)
    assert log.find_time(NOW + 1) == OffsetAndTime(0, NOW + 2, log.leader_epoch)


def test_an_empty_log_has_no_times(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    assert (log.find_time(0), log.find_max_time(), log.size) == (None, None, 0)


def test_times_before_the_start_are_not_found(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    append(log, b"a", time=NOW + 900)
    append(log, b"b", b"c", time=NOW)
    flush(store)
    log.delete_before(2)
    assert log.find_time(0) == OffsetAndTime(2, NOW + 1, log.leader_epoch)


def test_the_largest_time_is_looked_for_from_the_start_on(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    for time in (900, 100, 300, 300, 200):
        append(log, b"a", time=NOW + time)
    flush(store)
    found = []
    for start in range(6):
        log.delete_before(start)
        newest = log.find_max_time()
        found.append(newest and (newest.offset, newest.timestamp - NOW))
    assert found == [(0, 900), (2, 300), (2, 300), (3, 300), (4, 200), None]


def test_records_before_an_offset_can_be_deleted(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs={"segment.bytes": "300"}), 0)
    for number in range(20):
        append(log, b"%02d" % number, b"second")
    flush(store)
    before = log.size
    assert log.delete_before(21) == 21
    assert (log.start_offset, log.size < before) == (21, True)
    assert records(log)[0].offset == 21
    assert log.delete_before(5) == 21
    assert log.delete_before(1000) == 40
    assert values(log) == []
    assert append(log, b"next") == 40
    flush(store)
    assert values(log) == [b"next"]


# In a database, a row that is in was acknowledged.
@pytest.mark.parametrize("store", ["memory", "files"], indirect=True)
@pytest.mark.parametrize("segment_bytes", ["200", "1000000"])
def test_truncation_drops_whole_batches_from_an_offset_on(store: LogStore, segment_bytes: str) -> None:
    log = store.partition(topic_in(store, configs={"segment.bytes": segment_bytes}), 0)
    for number in range(20):
        append(log, b"%02d" % number, b"second", time=NOW + number)
    flush(store)
    log.truncate(31)
    assert (log.end_offset, log.stable_offset) == (30, 30)
    assert append(log, b"new", time=NOW - 5) == 30
    flush(store)
    assert values(log, 28) == [b"14", b"second", b"new"]
    found = log.find_max_time()
    assert found is not None and found.timestamp == NOW + 15
    log.truncate(0)
    assert (append(log, b"again"), log.size) == (0, 0)
    flush(store)
    assert values(log) == [b"again"]


def test_truncation_takes_producers_back(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    for sequence in range(4):
        append(log, b"a", producer_id=1, producer_epoch=0, base_sequence=sequence)
    flush(store)
    log.truncate(2)
    known = log.producers.get(1)
    assert known is not None and [batch.last_sequence for batch in known.batches] == [0, 1]


def test_retention_by_size_drops_the_oldest_segments(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs={"segment.bytes": "1000", "retention.bytes": "3000"}), 0)
    for number in range(100):
        append(log, b"%03d" % number * 30)
    flush(store)
    start = log.apply_retention(at(NOW))
    assert 3000 <= log.size < 4000
    assert start == log.start_offset > 0
    assert [record.offset for record in records(log)] == list(range(start, 100))


def test_retention_by_time_can_empty_a_log_but_keeps_its_end(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs={"segment.bytes": "1000", "retention.ms": str(HOUR)}), 0)
    for number in range(100):
        append(log, b"%03d" % number * 30, time=NOW + number * 60_000)
    flush(store)
    log.apply_retention(at(NOW + HOUR))
    assert log.start_offset == 0
    log.apply_retention(at(NOW + 2 * HOUR))
    assert 45 <= log.start_offset <= 60
    log.apply_retention(at(NOW + 10 * HOUR))
    assert (log.start_offset, log.end_offset, log.size) == (100, 100, 0)
    assert append(log, b"next", time=NOW + 10 * HOUR) == 100
    flush(store)
    assert values(log) == [b"next"]


def test_retention_leaves_alone_what_waits(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs={"retention.ms": "0", "segment.bytes": "150"}), 0)
    append(log, b"a" * 100)
    flush(store)
    append(log, b"b" * 100)
    log.apply_retention(at(NOW + HOUR))
    flush(store)
    assert values(log) == [b"b" * 100]


def test_compacted_and_unlimited_topics_keep_everything(store: LogStore) -> None:
    for name, configs in [("c", {"cleanup.policy": "compact", "retention.ms": "1"}), ("u", {"retention.ms": "-1"})]:
        log = store.partition(topic_in(store, name, configs={**configs, "segment.bytes": "100"}), 0)
        for _ in range(5):
            append(log, b"a" * 60)
        flush(store)
        assert log.apply_retention(at(NOW + 1000 * HOUR)) == 0


def test_old_segments_roll_by_time_so_that_retention_can_drop_them(store: LogStore) -> None:
    log = store.partition(topic_in(store, configs={"segment.ms": "1000", "retention.ms": "5000"}), 0)
    append(log, b"old")
    append(log, b"new", time=NOW + 2000)
    flush(store)
    assert log.apply_retention(at(NOW + 6000)) == 1


def test_new_configs_hold_for_open_logs(store: LogStore) -> None:
    topic_id = topic_in(store)
    log = store.partition(topic_id, 0)
    store.alter_topic(replace(store.topics()["orders"], configs={"retention.ms": "10"}))
    append(log, b"a")
    flush(store)
    assert log.apply_retention(at(NOW + 20)) == 1


def test_new_defaults_hold_for_open_logs_and_for_new_ones_but_not_against_a_topics_own(store: LogStore) -> None:
    plain, own = topic_in(store, "plain"), topic_in(store, "own", configs={"retention.ms": "-1"})
    logs = [store.partition(plain, 0), store.partition(own, 0)]
    store.change_defaults({"retention.ms": "10"})
    logs.append(store.partition(plain, 1))
    for log in logs:
        append(log, b"a")
    flush(store)
    assert [log.apply_retention(at(NOW + 20)) for log in logs] == [1, 0, 1]
    store.change_defaults({})
    append(logs[0], b"b")
    flush(store)
    assert logs[0].apply_retention(at(NOW + 20)) == 1


def test_appends_that_failed_to_sync_do_not_exist(store: LogStore) -> None:
    topic_id = topic_in(store, configs={"segment.bytes": "300"})
    log, other = store.partition(topic_id, 0), store.partition(topic_id, 1)
    append(log, b"kept", producer_id=1, producer_epoch=0, base_sequence=0)
    append(log, b"kept too" * 20)
    flush(store)
    for sequence in (1, 2):
        append(log, b"lost" * 50, producer_id=1, producer_epoch=0, base_sequence=sequence)
    append(log, b"lost", producer_id=2, producer_epoch=0, base_sequence=0)
    pending = store.take()
    assert pending is not None
    append(log, b"behind it")
    append(other, b"elsewhere")
    store.fail(pending, OSError(28, "No space left on device"))
    assert (log.end_offset, log.stable_offset, other.end_offset, store.queued_bytes) == (2, 2, 0, 0)
    assert values(log) == [b"kept", b"kept too" * 20]
    known = log.producers.get(1)
    assert known is not None and [batch.last_sequence for batch in known.batches] == [0]
    assert log.producers.get(2) is None
    assert append(log, b"again") == 2
    flush(store)
    assert values(log) == [b"kept", b"kept too" * 20, b"again"]


def test_queued_bytes_are_counted_until_settled(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    size = len(batch(b"a"))
    append(log, b"a")
    append(log, b"a")
    assert store.queued_bytes == 2 * size
    pending = store.take()
    assert pending is not None
    append(log, b"a")
    store.sync(pending)
    assert store.queued_bytes == 3 * size
    store.settle(pending)
    assert store.queued_bytes == size
    flush(store)
    assert store.queued_bytes == 0


def test_a_repeated_batch_is_known_before_it_is_settled(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    append(log, b"other")
    sent = batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0)
    header = read_header(sent)
    log.append(sent, log.leader_epoch)
    assert log.producers.check(header) == Duplicate(1, 2)


def test_producers_that_were_silent_for_a_day_are_forgotten(store: LogStore) -> None:
    log = store.partition(topic_in(store), 0)
    append(log, b"a", producer_id=9, producer_epoch=0, base_sequence=0)
    flush(store)
    log.apply_retention(at(NOW + 24 * HOUR))
    assert log.producers.get(9) is not None
    log.apply_retention(at(NOW + 24 * HOUR + 1))
    assert log.producers.get(9) is None


def test_topics_come_grow_and_go(store: LogStore) -> None:
    topic_id = topic_in(store, partitions=2)
    assert {name: topic.partitions for name, topic in store.topics().items()} == {"orders": 2}
    with pytest.raises(KeyError):
        store.partition(topic_id, 2)
    with pytest.raises(KeyError):
        store.partition(topic_id, -1)
    with pytest.raises(KeyError):
        store.partition(uuid4(), 0)
    store.alter_topic(Topic(topic_id, "orders", 3, {"retention.ms": "5"}))
    append(store.partition(topic_id, 2), b"a")
    flush(store)
    store.delete_topic(topic_id)
    assert store.topics() == {}
    with pytest.raises(KeyError):
        store.partition(topic_id, 0)
    again = topic_in(store)
    assert store.partition(again, 2).end_offset == 0
    flush(store)


def test_a_topic_can_be_deleted_while_it_is_written(store: LogStore) -> None:
    topic_id, kept = topic_in(store), topic_in(store, "kept")
    log, other = store.partition(topic_id, 0), store.partition(kept, 0)
    append(log, b"a")
    append(other, b"b")
    pending = store.take()
    assert pending is not None
    append(log, b"c")
    store.delete_topic(topic_id)
    store.sync(pending)
    store.settle(pending)
    flush(store)
    assert values(other) == [b"b"]
    assert store.queued_bytes == 0
    assert store.partition(topic_in(store), 0).end_offset == 0


def test_a_config_that_is_not_a_number_is_rejected(store: LogStore) -> None:
    with pytest.raises(ConfigError, match=r"retention\.ms must be a whole number, not 'soon'"):
        topic_in(store, configs={"retention.ms": "soon"})
    assert store.topics() == {}


def test_cluster_ids_look_like_kafkas(store: LogStore) -> None:
    assert len(store.cluster_id) == 22
