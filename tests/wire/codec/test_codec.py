"""The meaning of a declaration, with small test messages: versions, nulls, tags, and errors of the caller."""

import pytest
from hypothesis import given, settings

from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.codec import (
    Bool,
    Bytes,
    DecodeError,
    EncodeError,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    NullableBytes,
    NullableString,
    RecordParts,
    Records,
    String,
    Struct,
    UInt16,
    Uuid,
    array,
    decode,
    decoder,
    encode,
    encoder,
    message,
    since,
    struct,
)
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.wire.messages import any_bytes, fit, messages


@struct
class Part(Struct):
    """Two numbers and a string that is mostly null."""

    number: Int32 = 0
    offset: Int64 = -1
    note: NullableString = None
    extra: Int32 = since(2, default=7, tag=0)


@struct
class Inner(Struct):
    """Contents of a nullable or tagged struct."""

    value: Int16 = 3


@message(key=1000, versions=(0, 3), flexible=2)
class Sample(Message):
    """A field of every kind."""

    flag: Bool = False
    tiny: Int8 = 0
    port: UInt16 = 0
    ratio: Float64 = 0.0
    topic_id: Uuid = NO_TOPIC_ID
    name: String = ""
    blob: Bytes = b""
    blob_or_none: NullableBytes = None
    later: String = since(1, default="absent")
    ignored: Int32 = since(1, default=-1, ignorable=True)
    old: Int64 = since(0, until=1)
    maybe: NullableString = since(0, nullable=1)
    numbers: list[Int32] = array()
    names: list[String] = array()
    ids: list[Uuid] = array()
    parts: list[Part] = array()
    parts_or_none: list[Part] | None = since(0, nullable=1)
    inner: Inner | None = since(1, default=None)
    nested: Inner = since(0)
    tagged: NullableString = since(2, default=None, tag=1)
    tagged_inner: Inner | None = since(2, tag=3)
    tagged_parts: list[Part] = since(2, tag=2)


@message(versions=(0, 1), flexible=1)
class Carrier(Message):
    """Record batches."""

    incoming: Records = None
    outgoing: RecordParts = None
    last: Int8 = 0


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(messages(Sample, any_bytes))
def test_every_version_survives_the_way_through_bytes(sample: Sample) -> None:
    for version in range(4):
        expected = fit(sample, version)
        assert decode(Sample, version, encode(expected, version)) == expected


def test_defaults_are_fresh_and_keywords_are_checked() -> None:
    one, other = Sample(), Sample()
    one.parts.append(Part())
    one.nested.value = 9
    assert other.parts == []
    assert other.nested == Inner()
    assert (other.later, other.parts_or_none) == ("absent", [])
    assert Sample(parts_or_none=None).parts_or_none is None
    with pytest.raises(TypeError):
        Sample(nope=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Sample("positional")  # type: ignore[call-arg, arg-type]
    with pytest.raises(AttributeError):
        one.nope = 1  # type: ignore[attr-defined]


def test_messages_are_compared_by_value_and_print_what_is_not_default() -> None:
    assert Part(number=1) == Part(number=1)
    assert Part(number=1) != Part(number=2)
    assert Part() != Inner()
    assert repr(Part(number=1, note="x")) == "Part(number=1, note='x')"
    with pytest.raises(TypeError):
        hash(Part())


def test_the_bytes_of_both_encodings() -> None:
    @message(versions=(0, 1), flexible=1)
    class Small(Message):
        """A string, two numbers, a tag."""

        name: String = ""
        number: Int16 = 0
        wide: Int32 = 0
        tag: Int8 = since(1, tag=5)

    small = Small(name="ab", number=1, wide=2)
    assert encode(small, 0) == b"\0\2ab\0\1\0\0\0\2"
    assert encode(small, 1) == b"\3ab\0\1\0\0\0\2\0"
    small.tag = 9
    assert encode(small, 1) == b"\3ab\0\1\0\0\0\2\1\5\1\x09"
    with pytest.raises(EncodeError, match=r"Small\.tag is set, but version 0 does not have it"):
        encode(small, 0)


def test_a_field_that_the_version_lacks_must_have_its_default_unless_it_is_ignorable() -> None:
    assert decode(Sample, 0, encode(Sample(ignored=5), 0)).ignored == -1
    with pytest.raises(EncodeError, match=r"Sample\.later"):
        encode(Sample(later="set"), 0)
    with pytest.raises(EncodeError, match=r"Sample\.old"):
        encode(Sample(old=1), 2)
    with pytest.raises(EncodeError, match=r"Part\.extra"):
        encode(Sample(parts=[Part(extra=8)]), 1)
    with pytest.raises(EncodeError, match=r"Sample\.inner"):
        encode(Sample(inner=Inner()), 0)


def test_null_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(EncodeError, match=r"Sample\.maybe is null"):
        encode(Sample(maybe=None), 0)
    with pytest.raises(EncodeError, match=r"Sample\.parts_or_none is null"):
        encode(Sample(parts_or_none=None), 0)
    assert decode(Sample, 1, encode(Sample(maybe=None, parts_or_none=None), 1)).parts_or_none is None


@pytest.mark.parametrize(
    "wrong",
    [
        Sample(tiny=128),
        Sample(port=-1),
        Sample(name="\ud800"),
        Sample(numbers=[2**31]),
        Sample(name="x" * 40_000),
        Sample(parts=[Part(offset=2**63)]),
    ],
    ids=["too large", "negative", "half a surrogate pair", "in an array", "longer than int16", "in a struct"],
)
def test_values_that_do_not_fit_are_the_callers_error(wrong: Sample) -> None:
    with pytest.raises(EncodeError):
        encode(wrong, 0)


def test_versions_out_of_range_are_errors() -> None:
    for version in (-1, 4):
        with pytest.raises(EncodeError):
            encoder(Sample, version)
        with pytest.raises(DecodeError):
            decoder(Sample, version)


def test_an_error_code_may_be_assigned_and_reads_as_a_number() -> None:
    data = encode(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 1)
    assert decode(HeartbeatResponse, 1, data).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_unknown_tagged_fields_are_skipped_wherever_they_stand() -> None:
    # KIP-482: a newer peer may add some at any time.
    plain = encode(OffsetCommitRequest(group_id="g"), 8)
    assert plain.endswith(b"\1\0")  # no topics, no tags
    tagged = plain[:-1] + b"\2" + b"\x63\3abc" + b"\xff\xff\xff\xff\x0f\0"
    assert decode(OffsetCommitRequest, 8, tagged) == OffsetCommitRequest(group_id="g")
    known_and_unknown = encode(Sample(tagged="t"), 2)[:-5] + b"\3" + b"\0\1?" + b"\1\2\2t" + b"\x7f\0"
    assert decode(Sample, 2, known_and_unknown) == Sample(tagged="t")


def test_tagged_fields_in_the_elements_of_an_array_stop_the_short_cut_only_for_themselves() -> None:
    def partition(number: int, note: str | None) -> OffsetCommitRequestPartition:
        return OffsetCommitRequestPartition(partition_index=number, committed_offset=number, committed_metadata=note)

    notes = [None, "", None, "a note", None, ""]
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition(n, note) for n, note in enumerate(notes)])
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    for version in range(2, 10):
        assert decode(OffsetCommitRequest, version, encode(request, version)) == request

    sample = Sample(parts=[Part(number=1), Part(number=2, extra=1), Part(number=3)])
    assert decode(Sample, 3, encode(sample, 3)) == sample


def test_strings_keep_bytes_that_are_not_utf_8() -> None:
    raw = b"\xff\xfe\x80group"
    sample = decode(Sample, 0, encode(Sample(name=raw.decode("utf-8", "surrogateescape")), 0))
    assert sample.name.encode("utf-8", "surrogateescape") == raw


@pytest.mark.parametrize("version", [0, 1])
def test_record_batches_are_neither_joined_nor_copied(version: int) -> None:
    parts: list[bytes | bytearray | memoryview] = []
    first, second = bytearray(b"batch one"), memoryview(b"batch two")
    encoder(Carrier, version)(Carrier(incoming=b"in", outgoing=[first, second], last=4), parts)
    assert any(part is first for part in parts)
    assert any(part is second for part in parts)

    data = b"".join(parts)
    carrier = decode(Carrier, version, data)
    assert isinstance(carrier.incoming, memoryview)
    assert carrier.incoming.obj is data
    assert carrier == Carrier(incoming=b"in", outgoing=b"batch onebatch two", last=4)
    assert decode(Carrier, version, encode(Carrier(), version)) == Carrier()
    assert decode(Carrier, version, encode(Carrier(incoming=b"", outgoing=[]), version)).outgoing == b""


def test_record_batches_of_a_bytearray_are_writable_and_other_fields_are_copies() -> None:
    # A broker writes a batch's offset where the request holds the batch.
    data = bytearray(encode(Carrier(incoming=b"batch"), 1))
    carrier = decode(Carrier, 1, data)
    assert isinstance(carrier.incoming, memoryview)
    carrier.incoming[0] = ord("B")
    assert b"Batch" in data

    data = bytearray(encode(Sample(blob=b"b", blob_or_none=b"c", ids=[UUID(int=1)]), 3))
    sample = decode(Sample, 3, data)
    data[:] = bytes(len(data))
    assert type(sample.blob) is type(sample.blob_or_none) is bytes
    assert sample == Sample(blob=b"b", blob_or_none=b"c", ids=[UUID(int=1)])


def test_a_message_may_stand_anywhere_in_the_bytes_and_be_followed_by_others() -> None:
    body = encode(Sample(name="here"), 3)
    read = decoder(Sample, 3)
    assert read(b"before" + body + b"behind", 6) == (Sample(name="here"), 6 + len(body))
    assert decode(Sample, 3, bytearray(body)) == decode(Sample, 3, memoryview(body)) == Sample(name="here")


def test_long_arrays_of_numbers_and_ids() -> None:
    sample = Sample(numbers=list(range(-500, 500)), ids=[UUID(int=n) for n in range(40)], names=["x" * 200] * 200)
    for version in (0, 3):
        assert decode(Sample, version, encode(sample, version)) == sample


def test_the_repr_of_a_message_does_not_show_secrets() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonderland")
    assert repr(request) == "SaslAuthenticateRequest(auth_bytes=<secret>)"
    assert repr(SaslAuthenticateRequest()) == "SaslAuthenticateRequest()"
