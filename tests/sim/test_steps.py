"""Each kind of step has a text that is read as the same step."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from kohort.sim.bad_request_names import BadRequest
from kohort.sim.steps import (
    BrokerKill,
    Effect,
    MemberKill,
    MemberStart,
    MemberSubscribe,
    MessageFault,
    Right,
    Step,
    is_fault,
    parse,
    sort,
)  # fmt: skip

VALUES: dict[object, object] = {
    int: 3, float: 0.0512, str: "orders", tuple[str, ...]: ("audit", "orders"), tuple[int, ...]: (2, 1),
    Right: Right.READ_TOPIC, Effect: Effect.RESPONSE_LOST, BadRequest: BadRequest.JOIN_UNKNOWN_MEMBER,
}  # fmt: skip


@pytest.mark.parametrize("kind", get_args(Step), ids=lambda kind: str(kind.name()))
def test_a_step_is_read_as_it_was_written(kind: type[Step]) -> None:
    hints = get_type_hints(kind)
    values: list[Any] = [VALUES[hints[field.name]] for field in fields(kind)[1:]]
    step = kind(1.5, *values)
    assert parse(str(step)) == step


def test_the_text_of_a_step_has_its_time_its_name_and_its_attributes() -> None:
    assert str(MemberKill(1.5, 3, 0.5)) == "at 1.5000 member-kill 3 0.5"
    assert str(MemberSubscribe(20.0, 1, ("audit", "orders"))) == "at 20.0000 member-subscribe 1 audit,orders"
    assert str(MessageFault(2.0, Effect.REQUEST_LATE, "JoinGroup", 3.0)) == (
        "at 2.0000 message-fault request-late JoinGroup 3"
    )


@pytest.mark.parametrize("text", ["at 1.0 member-kil 1 0.5", "at 1.0 member-kill 1", "at soon member-kill 1 0.5", "at"])
def test_a_step_that_is_not_understood_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_steps_of_one_time_have_an_order_of_their_own() -> None:
    steps: list[Step] = [MemberStart(1.0, 1), MemberStart(1.0, 0), BrokerKill(1.0, 0, 1.0), MemberKill(0.5, 0, 1.0)]
    sort(steps)
    assert steps == [MemberKill(0.5, 0, 1.0), BrokerKill(1.0, 0, 1.0), MemberStart(1.0, 0), MemberStart(1.0, 1)]


def test_what_users_and_operators_do_is_no_fault() -> None:
    assert is_fault(MemberKill) and is_fault(MessageFault)
    assert not is_fault(MemberStart) and not is_fault(MemberSubscribe)
