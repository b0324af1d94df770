"""The last lines of a run: what weakens its result, and which tests this machine could not run, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest


class LastLines:
    """A pytest plugin that adds them after everything else but the line with the counts."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        yield
        stats = terminalreporter.stats
        lines = {
            "remarks": remarks([*stats.get("passed", ()), *stats.get("failed", ())]),
            "skipped on this machine": skips(stats.get("skipped", [])),
        }
        for title, found in lines.items():
            if found:
                terminalreporter.section(title)
                for line in found:
                    terminalreporter.write_line(line)


def remarks(reports: list[pytest.TestReport]) -> list[str]:
    """The texts of the fixture `remark`; those of other processes arrive with their reports."""
    return [
        f"{report.nodeid}: {text}"
        for report in reports
        if report.when == "call"
        for name, text in report.user_properties
        if name == "remark"
    ]


def skips(reports: list[pytest.TestReport]) -> list[str]:
    """One paragraph per reason: how many tests it skipped, and the names of their functions."""
    by_reason: dict[str, Counter[str]] = defaultdict(Counter)
    for report in reports:
        assert isinstance(report.longrepr, tuple)
        reason = report.longrepr[2].removeprefix("Skipped: ")
        by_reason[reason][report.nodeid.partition("[")[0]] += 1
    lines = []
    for reason, tests in sorted(by_reason.items()):
        lines.append(f"{tests.total()} skipped: {reason}")
        lines += [f"    {name}" + (f" ({times})" if times > 1 else "") for name, times in sorted(tests.items())]
    return lines
