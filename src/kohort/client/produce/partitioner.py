"""Choice of a record's partition: by key, otherwise sticky for a while, or by the application's function."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kohort.client.produce.key_hashes import crc32, fnv1a, murmur2
from kohort.errors import ConfigError

_CACHED_KEYS = 1 << 16

PartitionerFunction = Callable[[bytes | None, list[int], list[int]], int]
"""Function of the serialized key, all partitions and those with a leader, as in kafka-python and aiokafka."""


class KeyRule(NamedTuple):
    """How keys map to partitions. A key that is not hashed goes to the sticky partition."""

    hash: Callable[[bytes], int] | None
    hashes_null: bool = False
    hashes_empty: bool = True


RULES: Mapping[str, KeyRule] = {
    "default": KeyRule(murmur2),
    "murmur2_random": KeyRule(murmur2),
    "murmur2": KeyRule(murmur2, hashes_null=True),
    "consistent_random": KeyRule(crc32, hashes_empty=False),
    "consistent": KeyRule(crc32, hashes_null=True),
    "fnv1a_random": KeyRule(fnv1a),
    "fnv1a": KeyRule(fnv1a, hashes_null=True),
    "random": KeyRule(None),
}
"""Rules by name. `default` is the rule of Java; the other names and rules are librdkafka's."""


def partitioner_of(given: Any) -> KeyRule | PartitionerFunction:
    """Return the rule or function that the option `partitioner` specifies. Raises ConfigError."""
    if callable(given):
        function: PartitionerFunction = given
        return function
    if isinstance(given, str) and given in RULES:
        return RULES[given]
    raise ConfigError(f"partitioner is {given!r}, but must be a function or one of: {', '.join(sorted(RULES))}.")


class Partitioner:
    """Partitioner of one topic of a producer."""

    __slots__ = (
        "_by_key",
        "_choice",
        "_led",
        "_spreads_null",
        "_stretch",
        "count",
        "sticky",
        "sticky_left",
    )

    def __init__(self, count: int, batch_size: int, choice: KeyRule | PartitionerFunction = RULES["default"]) -> None:
        assert count > 0
        self.count = count
        self._choice = choice
        self._spreads_null = isinstance(choice, KeyRule) and not choice.hashes_null
        self._by_key: dict[bytes, int] = {}
        self._led: Sequence[int] = ()
        self._stretch = batch_size
        self.sticky = 0
        """Partition of records without a key, until they have `sticky_left` bytes more."""
        self.sticky_left = 0

    def resize(self, count: int) -> None:
        """Set the topic's partition count. Keys map anew from here on."""
        self.count = count
        self._by_key.clear()
        self.sticky_left = 0

    def led(self, partitions: Sequence[int]) -> None:
        """Set the partitions that have a leader.

        Records without a key use only these, or any if there are none.
        """
        self._led = partitions
        if self.sticky not in partitions:
            self.sticky_left = 0

    def choose(self, key: bytes | bytearray | memoryview | None, size: int) -> int:
        """Return the partition of a record of `size` bytes. Raises ConfigError for a wrong answer of a function.

        The sticky partition changes after about one batch, so that batches fill at any rate (KIP-794).
        """
        if type(key) is bytes:
            partition = self._by_key.get(key)
            return self._map(key, size) if partition is None else partition
        if key is None and self._spreads_null:
            if self.sticky_left <= 0:
                self.sticky = random.choice(self._led or range(self.count))
                self.sticky_left = self._stretch
            self.sticky_left -= size
            return self.sticky
        return self._map(None if key is None else bytes(key), size)

    def _map(self, key: bytes | None, size: int) -> int:
        rule = self._choice
        if not isinstance(rule, KeyRule):
            return self._by_function(rule, key)
        if rule.hash is None or (key == b"" and not rule.hashes_empty):
            return self.choose(None, size)
        if self.count == 1:
            return 0
        if len(self._by_key) >= _CACHED_KEYS:
            self._by_key.clear()
        data = key or b""
        partition = self._by_key[data] = rule.hash(data) % self.count
        return partition

    def _by_function(self, function: PartitionerFunction, key: bytes | None) -> int:
        chosen = function(key, list(range(self.count)), list(self._led))
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < self.count:
            raise ConfigError(f"the partitioner returned {chosen!r}, but must return 0 to {self.count - 1}.")
        return chosen
