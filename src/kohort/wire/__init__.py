"""Kafka's wire: every message that Kohort serves or sends, record batches, and the records of `__consumer_offsets`.

One module per API (`kohort.wire.join_group`), `kohort.wire.codec` to turn messages into bytes and back.
"""
