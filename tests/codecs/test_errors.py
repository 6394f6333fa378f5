"""The errors of the codecs."""

from __future__ import annotations

import pytest

from groupreplay.codecs.errors import (
    MEMORY_CONSTANT,
    NO_LIMIT,
    Budget,
    CodecError,
    DecodeError,
    EncodeError,
    Malformed,
    Skipped,
)


def test_paths_grow_from_the_inside() -> None:
    """A field's path is built on the way out: index, then field, with dots only between names."""
    error = DecodeError(7, "needs 4 bytes, 1 are left")
    for part in ("client_id", "[3]", "members"):
        error.inside(part)
    assert error.field == "members[3].client_id"
    assert str(error) == "members[3].client_id at byte 7: needs 4 bytes, 1 are left"


def test_whose_fault_it_is() -> None:
    """Both errors have one base; the caller's is a ValueError, too."""
    assert issubclass(DecodeError, CodecError)
    assert issubclass(EncodeError, CodecError)
    assert issubclass(EncodeError, ValueError)
    assert (
        str(EncodeError("is None, which this field may not be"))
        == "record: is None, which this field may not be"
    )


def test_outcomes_are_values() -> None:
    """Skips and refusals compare by content, so that they can be counted."""
    assert Skipped(255, None, "r") == Skipped(255, None, "r")
    assert len({Malformed(1, 4, "offset", 2, "r"), Malformed(1, 4, "offset", 2, "r")}) == 1


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
