"""Streams of frames: what passes, what is collected, and in which order, however the bytes arrive."""

from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.gateway.framing import BadStream, Fate, FrameStream

PASSED, COLLECTED, LATE = b"p", b"c", b"l"


def decide(head: memoryview, size: int) -> Fate:
    """The first byte says what happens to a frame; those with `l` are decided by their third byte."""
    if not size:
        return Fate.PASS
    if not head or (bytes(head[:1]) == LATE and len(head) < min(3, size)):
        return Fate.UNDECIDED
    return Fate.COLLECT if bytes(head[:1]) == COLLECTED else Fate.PASS


def run(pieces: list[bytes]) -> tuple[bytes, list[bytes]]:
    """Return all that left, collected frames in brackets, and the collected frames."""
    out, collected = bytearray(), []

    def collect(frame: bytes) -> None:
        out.extend(b"[" + frame + b"]")
        collected.append(frame)

    stream = FrameStream(decide, out.extend, collect, max_frame=1000)
    for piece in pieces:
        stream.feed(piece)
    assert not stream.mid_frame
    return bytes(out), collected


def test_a_frame_may_have_the_maximum_size() -> None:
    whole = pack(">i", 1_000) + PASSED * 1_000
    assert run([whole])[0] == whole
    with pytest.raises(BadStream, match="1001 bytes is outside 0 to 1000"):
        run([pack(">i", 1_001)])


frames = st.lists(
    st.tuples(st.sampled_from([PASSED, COLLECTED, LATE]), st.binary(max_size=30)).map(b"".join) | st.just(b""),
    max_size=12,
)


@given(frames, st.data())
def test_every_way_to_cut_a_stream_gives_the_same(frames: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pack(">i", len(frame)) + frame for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    bounds = [0, *cuts, len(whole)]
    out, collected = run([whole[begin:end] for begin, end in pairwise(bounds)])
    assert collected == [frame for frame in frames if frame[:1] == COLLECTED]
    assert out == b"".join(
        b"[" + frame + b"]" if frame[:1] == COLLECTED else pack(">i", len(frame)) + frame for frame in frames
    )


def test_a_frame_that_passes_leaves_before_it_is_complete() -> None:
    out = bytearray()
    stream = FrameStream(decide, out.extend, lambda _: None, max_frame=1000)
    stream.feed(pack(">i", 100) + b"p123")
    assert bytes(out) == pack(">i", 100) + b"p123"
    assert stream.mid_frame


@pytest.mark.parametrize("size", [-1, 1001])
def test_a_frame_of_an_impossible_size_ends_the_stream(size: int) -> None:
    stream = FrameStream(decide, lambda _: None, lambda _: None, max_frame=1000)
    with pytest.raises(BadStream, match="outside 0 to 1000"):
        stream.feed(pack(">i", size))


def test_a_frame_that_passes_may_be_larger_than_one_that_is_collected() -> None:
    out = bytearray()
    stream = FrameStream(decide, out.extend, lambda _: None, max_frame=1000, max_collected=10)
    stream.feed(pack(">i", 11) + b"p" + bytes(10))
    assert len(out) == 15
    stream.feed(pack(">i", 10) + b"c" + bytes(9))
    with pytest.raises(BadStream, match="11 bytes has more than the 10 that are read"):
        stream.feed(pack(">i", 11) + b"c")


class WalkToAnEnd:
    """Finds the end of a frame at its second byte."""

    is_done = False

    def feed(self, data: memoryview) -> int:
        self.is_done = True
        return 1


def test_the_end_of_a_frame_that_is_not_passed_on_is_bounded() -> None:
    def walked() -> FrameStream:
        return FrameStream(
            lambda head, size: Fate.WALK,
            lambda _: None,
            lambda _: None,
            max_frame=4 << 20,
            begin_walk=lambda _: WalkToAnEnd(),
            end_walk=lambda _, end: end,
        )

    size = 3 << 20
    fits = walked()
    fits.feed(pack(">i", 1 << 20) + bytes(1 << 20))
    assert not fits.mid_frame
    stream = walked()
    stream.feed(pack(">i", size) + bytes(1 << 19))
    with pytest.raises(BadStream, match="ends with more than 1048576 bytes of addresses"):
        for _ in range(size >> 19):
            stream.feed(bytes(1 << 19))
