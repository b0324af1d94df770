"""Bugs of the log on files, which only worlds on files can find; see planting."""

from __future__ import annotations

from pytest import MonkeyPatch

from kohort.log import recovery
from tests.sim.planting import plant


@plant("L6", "S7", "S10", hint=75)
def recovery_does_not_check_checksums(patch: MonkeyPatch) -> None:
    patch.setattr(recovery, "crc_matches", lambda *arguments: True)


@plant("L6", "S7", "S10", hint=357)
def recovery_truncates_the_whole_segment(patch: MonkeyPatch) -> None:
    cut = recovery._cut
    patch.setattr(recovery, "_cut", lambda path, size: cut(path, 0))
