"""A group member in a plain loop: poll, work, commit.

    python examples/simple_loop.py orders billing [--bootstrap HOST:PORT] [--max N]

Printed records are committed; after a crash, uncommitted records are printed again (at least once).
"""

import argparse

from kohort.blocking import Consumer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic")
    parser.add_argument("group")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--max", type=int, help="number of records after which the program ends")
    options = parser.parse_args()

    left = options.max
    with Consumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while left is None or left > 0:
            records = consumer.poll(left)
            for record in records:
                print(f"{record.topic}-{record.partition}@{record.offset}: {record.value!r}")
            if records:
                consumer.commit()
            left = None if left is None else left - len(records)


if __name__ == "__main__":
    main()
