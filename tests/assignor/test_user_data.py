import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor.user_data import Claim, decode_claim, decode_generation, encode_claim, encode_generation
from kohort.model import TopicPartition
from tests.assignor.groups import parts, steady

partitions = st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 2**31 - 1))
claims = st.builds(Claim, st.lists(partitions), st.integers(-1, 2**31 - 1))


def test_the_bytes_are_those_of_the_java_client() -> None:
    java = bytes.fromhex("0000000100017400000002000000000000000200000005")
    assert encode_claim(Claim(parts("t-0 t-2"), 5)) == java
    assert decode_claim(java) == Claim(parts("t-0 t-2"), 5)


def test_equal_claims_are_equal_bytes_in_whatever_order_a_set_gives_them() -> None:
    # The coordinator compares bytes: other ones are a changed subscription, and rebalance the group (KAFKA-12898).
    one, other = (Claim(parts(names), 5) for names in ("t-2 u-1 t-0", "u-1 t-0 t-2"))
    assert encode_claim(one) == encode_claim(other)


def test_a_claim_of_before_2_3_has_no_generation() -> None:
    assert decode_claim(bytes.fromhex("000000010001740000000100000003")) == Claim(parts("t-3"), -1)


@steady
@given(claims)
def test_a_claim_survives_the_journey(claim: Claim) -> None:
    decoded = decode_claim(encode_claim(claim))
    assert sorted(decoded.partitions) == sorted(claim.partitions)
    assert decoded.generation == claim.generation


@steady
@given(st.binary())
def test_garbage_of_another_member_is_never_an_error(data: bytes) -> None:
    assert isinstance(decode_claim(data), Claim)
    assert isinstance(decode_generation(data), int)


@pytest.mark.parametrize("data", [b"", None, b"\x00", b"\xff" * 12, b"\x7f\xff\xff\xff"])
def test_malformed_user_data_counts_as_no_claim(data: bytes | None) -> None:
    assert decode_claim(data) == Claim([], -1) or decode_claim(data) == Claim()


def test_a_generation_survives_the_journey() -> None:
    assert encode_generation(-1) == b"\xff\xff\xff\xff"
    assert decode_generation(encode_generation(77)) == 77
    assert decode_generation(None) == decode_generation(b"\x01") == -1
