"""The memory limit of one record."""

import pytest

from groupreplay.codecs.budget import MEMORY_CONSTANT, NO_LIMIT, Budget
from groupreplay.codecs.errors import DecodeError


def test_spending_ends() -> None:
    """What is spent adds up; the charge that passes the limit is refused at its position."""
    budget = Budget(1000)
    budget.spend(budget.left, 3)
    with pytest.raises(DecodeError, match="more memory than 8 times") as caught:
        budget.spend(1, 17)
    assert caught.value.at == 17


def test_the_limit_grows_with_the_record() -> None:
    """A record of 1 MiB may take 7 MiB beyond its own content and the constant."""
    assert Budget(1 << 20).left - Budget(0).left == 7 << 20
    assert 0 < Budget(0).left < MEMORY_CONSTANT


def test_equal_strings_are_one_object_and_paid_once() -> None:
    """The second equal string costs nothing and is the first one."""
    budget = Budget(0)
    first = "".join(["us-", "east"])
    assert budget.shared(first, 0) is first
    left = budget.left
    assert budget.shared("".join(["us-e", "ast"]), 0) is first
    assert budget.left == left


def test_no_limit() -> None:
    """The shared object without a limit can be used any number of times."""
    NO_LIMIT.spend(1 << 60, 0)
