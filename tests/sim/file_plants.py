"""Bugs of the log on files, which only worlds on files can find; see planting."""

from __future__ import annotations

from pytest import MonkeyPatch

from kohort.log import recovery
from tests.sim.planting import plant


@plant("L6", "S7", "S10", hint=75)
def recovery_does_not_check_what_a_crash_left(patch: MonkeyPatch) -> None:
    patch.setattr(recovery, "crc_matches", lambda *arguments: True)


@plant("S3", "L2", "S7", "S10", "S13", "L6", hint=261)
def recovery_cuts_nothing(patch: MonkeyPatch) -> None:
    patch.setattr(recovery, "_cut", lambda path, size: None)
