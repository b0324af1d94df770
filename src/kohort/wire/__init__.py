"""Kafka's wire protocol: the messages that Kohort serves or sends, record batches, and `__consumer_offsets` records.

It consists of rooms only. There is one module per API, such as `kohort.wire.messages.join_group`.
`kohort.wire.codec` encodes and decodes messages, and `kohort.wire.api` has their headers.
"""
