"""The errors of the codecs."""

from groupreplay.codecs.errors import CodecError, DecodeError, EncodeError, Malformed, Skipped


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
