"""A worker process as systemd and containers run it: SIGTERM ends it in order.

    python examples/worker.py orders billing [--bootstrap HOST:PORT]

After SIGTERM or SIGINT the worker finishes its record, commits, leaves the group, and exits with 0. If it cannot
process a record, it commits what came before and exits with 1, so that a restart begins with this record.
"""

import argparse
import json
import logging
import signal
import sys
import threading

from kohort import ConsumerRecord, TopicPartition
from kohort.blocking import Consumer

log = logging.getLogger("worker")


def process(record: ConsumerRecord) -> None:
    """Do the work. Raises ValueError for a record that is not JSON."""
    print(json.loads(record.value or b""), flush=True)


def work(consumer: Consumer, stop: threading.Event) -> None:
    """Process records until `stop` is set, and commit each batch."""
    while not stop.is_set():
        done: dict[TopicPartition, int] = {}
        try:
            for record in consumer.poll(100, timeout=0.5):
                process(record)
                done[TopicPartition(record.topic, record.partition)] = record.offset + 1
                if stop.is_set():
                    break
        except ValueError as problem:
            log.error("%s-%d@%d: %s", record.topic, record.partition, record.offset, problem)
            raise
        finally:
            if done:
                consumer.commit(done)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Consumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        try:
            work(consumer, stop)
        except ValueError:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
