"""The records of a partition of `__transaction_state`: as bytes, and decoded for the `TransactionShard` that loads."""

import logging
from collections.abc import Iterable, Sequence

from kohort.coordinator import Record
from kohort.coordinator.transactions import TransactionShard
from kohort.wire.batches.scanning import Pair
from kohort.wire.codec import DecodeError
from kohort.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kohort.wire.transaction_log import decode_key, decode_value, encode_key, encode_value

log = logging.getLogger("kohort.broker")


def encode_states(records: Iterable[Record], *, flexible: bool) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of the records. Before transaction.version 1, values are not flexible."""
    pairs: list[tuple[bytes, bytes | None]] = []
    for record in records:
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        assert value is None or isinstance(value, TransactionLogValue)
        pairs.append((encode_key(key), None if value is None else encode_value(value, 1 if flexible else 0)))
    return pairs


class TransactionContents:
    """What replays the partition's records into the shard; unreadable ones are skipped and logged."""

    def __init__(self, shard: TransactionShard, name: str) -> None:
        self._shard = shard
        self._name = name
        """Topic and partition, for the log."""

    def replay(self, pairs: Sequence[Pair]) -> None:
        for key, value in pairs:
            try:
                found = decode_key(key or b"")
                if found is not None:
                    self._shard.replay(Record(found, None if value is None else decode_value(value)))
            except (DecodeError, ValueError) as error:
                log.error("skipped an unreadable record of %s: %s", self._name, error)

    def replay_pending(self, pairs: Sequence[Pair], producer_id: int) -> None:
        log.error("skipped a batch of %s: only its coordinator writes it, without transactions", self._name)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: without transactional batches, a marker ends nothing."""
