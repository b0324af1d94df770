"""All that is fuzzed, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz import files, groups, messages, records, texts
from tests.fuzz.rules import Target

TARGETS: Mapping[str, Target] = {
    target.name: target for module in (messages, records, groups, files, texts) for target in module.TARGETS
}
