"""The log of a watcher, for operators who do not look at the page."""

import logging

import pytest

from kohort.watch import Live, SourceKind
from kohort.watch.web.log_lines import LogLines


@pytest.fixture
def live(caplog: pytest.LogCaptureFixture) -> Live:
    caplog.set_level(logging.INFO, "kohort.watch")
    made = Live()
    made.subscribe(LogLines().sink)
    return made


def test_a_source_that_fails_is_logged_once_per_reason_and_when_it_works_again(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    live.source(SourceKind.LOG, "loading", 1)
    for at in (2, 3):
        live.source(SourceKind.LOG, "failed", at, "No broker answers.")
    live.source(SourceKind.LOG, "following", 4)
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        ("WARNING", "Groups and rebalances are not followed: No broker answers."),
        ("INFO", "Groups and rebalances are followed again."),
    ]


def test_a_log_that_may_not_be_read_is_logged_with_what_is_missed(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    live.source(SourceKind.LOG, "forbidden", 1, "It needs an ACL.")
    live.source(SourceKind.ADMIN, "following", 2)
    (line,) = caplog.messages
    assert line.startswith("It needs an ACL. Meanwhile the groups are described every few seconds")
    live.source(SourceKind.ADMIN, "off", 3)
    live.source(SourceKind.LOG, "loading", 3)
    live.source(SourceKind.LOG, "following", 4)
    assert caplog.messages[1:] == ["Groups and rebalances are followed again."]


def test_a_problem_is_logged_once(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    for at in (1, 2):
        live.problem("Group 100%s cannot be described.", at)
    assert caplog.messages == ["Group 100%s cannot be described."]
    assert caplog.records[0].levelname == "WARNING"


def test_a_problem_that_is_over_is_logged(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    live.problem("Group g cannot be described.", 1, about="group g")
    live.solved("group g", 2)
    live.solved("group g", 3)
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        ("WARNING", "Group g cannot be described."),
        ("INFO", "Solved: Group g cannot be described."),
    ]


def test_what_works_is_not_logged(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    for kind in SourceKind:
        live.source(kind, "loading", 1)
        live.source(kind, "following", 2)
    assert caplog.messages == []


@pytest.mark.parametrize("kind", list(SourceKind))
def test_each_source_has_its_lines(live: Live, caplog: pytest.LogCaptureFixture, kind: SourceKind) -> None:
    live.source(kind, "failed", 1, "It does not answer.")
    live.source(kind, "following", 2)
    failed, again = caplog.messages
    assert failed.endswith(": It does not answer.")
    assert again.endswith(" again.")
