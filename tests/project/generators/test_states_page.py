"""The page about states and the code agree."""

from __future__ import annotations

from generators.states_page import page
from groupreplay.codecs.kafka_terms import ConsumerPhase, MemberPhase, Phase
from groupreplay.state.replay.phases import Observed
from groupreplay.state.snapshot.modern import MEMBER_STATES, STATES


def test_every_cell_is_on_the_page() -> None:
    """The table is total there, too: a row for everything seen, a column for every state."""
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| ")]
    by_first = {row[0].removeprefix("| "): row for row in rows}
    assert {len(by_first[seen.value]) for seen in Observed} == {len(Phase) + 1}
    assert by_first["a record without members"][1:3] == ["Empty", "Empty, `group.emptied`"]


def test_the_diagram_is_drawn_from_the_table() -> None:
    """What the log alone can do: every arrow is a cell that says something or moves the group."""
    arrows = [line.strip() for line in page().splitlines() if " --> " in line and "[*]" not in line]
    assert "Dead --> Empty: a record without members" in arrows
    assert "Stable --> Stable: a record with members and the known generation" in arrows
    assert "Empty --> Empty: an offset commit" not in arrows
    assert not [line for line in arrows if "broker" in line]


def test_every_rule_and_every_member_state_is_told() -> None:
    """In the order in which the broker tries them, each with its condition."""
    text = page()
    assert (
        "| 2 | NotReady | The group has no topology, or the epoch of the topology is not the validated one |"
        in text
    )
    for rules in STATES.values():
        for name, rule in rules:
            assert rule.__doc__, name
    assert set(MEMBER_STATES) == set(MemberPhase)


def test_every_state_of_the_broker_is_told() -> None:
    """With the states before it, for both kinds of groups, and what the log shows of it."""
    text = page()
    rows = [line.split(" | ") for line in text.partition("## Classic groups")[0].splitlines()]
    told = [(row[0].removeprefix("| "), row[1]) for row in rows if len(row) == 3 and "---" not in row[0]]
    assert [name for name, _ in told] == [
        *("state", *(phase.value for phase in Phase)),
        *("state", *(phase.value for phase in ConsumerPhase), "Empty (classic)", "Stable (classic)"),
    ]
    assert dict(told)["CompletingRebalance"] == "PreparingRebalance"
    assert dict(told)["Assigning"] == "Empty, Reconciling, Stable"
