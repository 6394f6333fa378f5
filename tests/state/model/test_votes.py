"""The vote for a protocol (``ClassicGroup``)."""

from __future__ import annotations

import pytest

from groupreplay.state.model.votes import candidate_protocols, select_protocol, vote


def test_candidates_are_supported_by_all() -> None:
    """Protocols of every member, in the first member's order."""
    supported = {"a": ["sticky", "range", "mine"], "b": ["range", "sticky"], "c": ["range", "sticky", "mine"]}
    assert candidate_protocols(supported) == ["sticky", "range"]
    assert candidate_protocols({}) == []


def test_a_member_votes_for_its_first_candidate() -> None:
    """Preferences that are not candidates are skipped."""
    assert vote(["mine", "range", "sticky"], ["sticky", "range"]) == "range"


def test_a_member_without_a_candidate_is_an_error() -> None:
    """Such a member could not have joined."""
    with pytest.raises(ValueError, match="supports none of the candidates"):
        vote(["mine"], ["range"])


def test_the_majority_wins() -> None:
    """Two votes against one, whichever is first."""
    assert select_protocol({"a": ["x", "y"], "b": ["y", "x"], "c": ["y", "x"]}) == "y"


def test_a_tie_goes_to_the_first_candidate() -> None:
    """With one vote each, the order of the first member decides."""
    assert select_protocol({"a": ["x", "y"], "b": ["y", "x"]}) == "x"


@pytest.mark.parametrize("supported", [{}, {"a": ["x"], "b": ["y"]}])
def test_no_common_protocol(supported: dict[str, list[str]]) -> None:
    """Nothing can be selected without members or without a common protocol."""
    with pytest.raises(ValueError, match="no protocol is supported by every member"):
        select_protocol(supported)
