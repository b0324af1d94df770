import re

import pytest

from kohort.assignor import ASSIGNORS, find_assignor, find_assignors
from kohort.assignor.range import RangeAssignor
from kohort.errors import ConfigError


def test_kafkas_four_are_found_by_the_names_on_the_wire() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert find_assignor("sticky") is ASSIGNORS["sticky"]


def test_a_users_own_is_found_by_where_its_class_is() -> None:
    assert isinstance(find_assignor("kohort.assignor.range:RangeAssignor"), RangeAssignor)
    assert isinstance(find_assignor("kohort.assignor.range.RangeAssignor"), RangeAssignor)


def test_an_object_may_stand_for_itself() -> None:
    own = RangeAssignor()
    assert find_assignors([own, "sticky"]) == [own, ASSIGNORS["sticky"]]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["sticki"], "There is no assignor 'sticki': use range, roundrobin"),
        (["no.such.module:Class"], "cannot be loaded: No module named"),
        (["kohort.assignor.range:Missing"], "cannot be loaded: module"),
        (["kohort.model:TopicPartition"], "cannot be loaded: "),
        (["builtins:dict"], "lacks a part of kohort.assignor.Assignor"),
        ([":"], "cannot be loaded"),
        (["range", "range"], "names an assignor twice: range, range"),
        ([], "is empty"),
    ],
)
def test_a_wrong_name_is_one_sentence(names: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        find_assignors(names)
