"""`python -m tests.analytics.generate DIR --commits 10000000`: write a made-up history and its truth."""

import argparse
import sys
from pathlib import Path

from tests.analytics.generate.history import Scale, write


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a made-up history of __consumer_offsets, and its truth.")
    parser.add_argument("directory", type=Path, help="where to; must not exist")
    parser.add_argument("--commits", type=int, default=1_000_000, help="about so many (default: 1,000,000)")
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--window-minutes", type=int, default=60, help="how far apart known ends of topics are")
    parser.add_argument("--skew", type=float, default=0.0, help="part of all commits that one group makes")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.directory.exists():
        parser.error(f"{given.directory} exists")
    given.directory.mkdir(parents=True)
    scale = Scale(
        commits=given.commits,
        groups=given.groups,
        days=given.days,
        window_ms=given.window_minutes * 60_000,
        skew=given.skew,
        seed=given.seed,
    )
    records = write(given.directory, scale, _tell)
    sys.stderr.write(f"\r{records:,} records of {scale.groups:,} groups over {scale.days:g} days\n")
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"\r{line}")


if __name__ == "__main__":
    sys.exit(main())
