"""Apache Kafka's own client reads what we write and writes what we read, with every codec: one JVM for all batches."""

import subprocess
from pathlib import Path
from random import Random

import pytest

from kohort.wire.batches import BatchHeader, Codec, Record, decode_records, encode_batch, read_header
from tests.interop.kafka import jars

NOW = 1_700_000_000_000

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("kafka_tools")]


def ask_java(lines: list[str]) -> list[str]:
    source = Path(__file__).with_name("RecordBatches.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(source)]
    ran = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def some_records(dice: Random) -> list[Record]:
    def blob() -> bytes | None:
        match dice.randrange(5):
            case 0:
                return None
            case 1:
                return b""
            case 2:
                return dice.randbytes(dice.randint(1, 300))
            case _:
                return b"flights " * dice.randint(1, 4000)

    def headers() -> tuple[tuple[str, bytes | None], ...]:
        return tuple((f"h{dice.randrange(9)}", blob()) for _ in range(dice.choice([0, 0, 1, 3])))

    first, time = dice.choice([0, 17, 2**40]), NOW + dice.randint(-(10**9), 10**9)
    return [
        Record(first + n, time + dice.randint(-5000, 5000), blob(), blob(), headers())
        for n in range(dice.randint(1, 30))
    ]


def described(record: Record) -> str:
    def shown(blob: bytes | None) -> str:
        return "null" if blob is None else f"x{blob.hex()}"

    headers = [f"{name}={shown(value)}" for name, value in record.headers]
    return " ".join([str(record.offset), str(record.timestamp), shown(record.key), shown(record.value), *headers])


def claims(header: BatchHeader) -> BatchHeader:
    """Return the parts of a batch that are equal for all writers: without sizes, checksum and leader epoch."""
    return header._replace(crc=0, batch_length=0, leader_epoch=0)


def test_java_reads_our_batches_and_we_read_javas() -> None:
    dice = Random("kohort records")
    cases = [(codec, some_records(dice)) for codec in Codec for _ in range(25)]
    ours = [encode_batch(records, codec) for codec, records in cases]
    answers = iter(
        ask_java([f"{codec.name.lower()} {batch.hex()}" for (codec, _), batch in zip(cases, ours, strict=True)])
    )
    for (codec, records), batch in zip(cases, ours, strict=True):
        assert [next(answers) for _ in records] == [described(record) for record in records]
        what, _, packed = next(answers).partition(" ")
        assert what == "batch"
        theirs = bytes.fromhex(packed)
        assert [record._replace(headers=tuple(record.headers)) for record in decode_records(theirs)] == records
        assert claims(read_header(theirs)) == claims(read_header(batch))
        if codec is Codec.NONE:
            assert theirs[61:] == batch[61:]


def test_java_refuses_what_we_refuse() -> None:
    # Were the checksums computed over other bytes, one side would take what the other does not.
    batch = encode_batch([Record(0, NOW, b"key", b"value")])
    flipped = []
    for at in (17, 21, 30, 57, len(batch) - 1):
        damaged = bytearray(batch)
        damaged[at] ^= 4
        flipped.append(damaged)
    assert {line.split()[0] for line in ask_java([f"none {damaged.hex()}" for damaged in flipped])} == {"refused"}
