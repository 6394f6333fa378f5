"""The text and the tables of ``explain``."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from groupreplay.app.inspection.explain import (
    Explanation,
    ProtocolChoice,
    Vote,
    explanation,
    explanation_lines,
    explanation_tables,
    protocol_choice,
)
from groupreplay.streaming.base.clock import UTC, time_zone
from groupreplay.timeline.diagnosis import FirstStep, LinkEvidence, RecordPlace, Statement, link
from support.diagnosed import histories
from support.diagnosed.worlds import history

#: 2026-01-01T00:00:00Z
BEGIN = 1_767_225_600_000
HOUR = 3_600_000
WINDOW = (BEGIN, BEGIN + HOUR)
EVIDENCE = LinkEvidence(
    events=("e-1",), records=(RecordPlace(partition=3, offset=7),), probes_ms=(BEGIN + 5_000,)
)
STATEMENT = Statement(
    tone="error",
    text="",
    parts=("Stuck since ", BEGIN + 60_000, "."),
    since_ms=BEGIN,
    until_ms=BEGIN,
    cause="gave_up",
    links=(
        link("cause", ["It hung."], WINDOW, EVIDENCE, "inferred", "its last commit"),
        link("do_first", ["Take a thread dump."], WINDOW, EVIDENCE, "inferred"),
    ),
    gaps=("What began it is not known.",),
    first=FirstStep(
        text="Take a thread dump",
        about="group g, a on h",
        command="groupreplay list",
        runbook="docs/runbook.md#member-left",
    ),
)
TOLD = Explanation(
    group_id="g",
    group_type="classic",
    since_ms=WINDOW[0],
    until_ms=WINDOW[1],
    diagnosis=(STATEMENT,),
    states=(),
    rebalances=(),
    offsets=(),
    protocol=None,
    missing=("No prober asked.",),
)


def test_the_text() -> None:
    """The sentence, its links with how certain they are, the command, what is not known, what is missing."""
    assert list(explanation_lines(TOLD, UTC, verbose=False, width=100)) == [
        "g: classic group, not known at the end; 2026-01-01 00:00:00 to 2026-01-01 01:00:00 (UTC)",
        "",
        "ERROR Stuck since 00:01:00.",
        "      Cause        It hung. [inferred: its last commit]",
        "      Do first     Take a thread dump. [inferred]",
        "                   $ groupreplay list",
        "                   docs/runbook.md#member-left",
        "      Not known    What began it is not known.",
        "",
        "      Missing      No prober asked.",
    ]


def test_evidence_and_another_zone() -> None:
    """With the ids, the records and the answers; times in the zone that was asked for."""
    lines = list(explanation_lines(TOLD, time_zone("+02:00"), verbose=True, width=100))
    assert lines[2] == "ERROR Stuck since 02:01:00."
    assert lines[4] == "                   by event e-1, record 3:7, answer of 02:00:05"


def test_a_group() -> None:
    """The path of its states, its last rebalances, and what becomes of its offsets."""
    records, answers = histories.silent_member()
    document = history(records, probes=answers)(0)
    told = explanation(document, None, HOUR, 1)
    assert told.diagnosis == document.verdict
    assert [(row.state, row.valid_previous) for row in told.states][-2:] == [
        ("CompletingRebalance", ("PreparingRebalance",)),
        ("Stable", ("CompletingRebalance",)),
    ]
    assert [(row.generation, row.trigger, row.joined, row.left) for row in told.rebalances] == [
        (2, "member_joined", 1, 1)
    ]
    assert told.offsets == ()
    questions = [question for question, _ in explanation_tables(told)]
    assert questions == [
        "Why is it in this state",
        "Why did it rebalance (the last 1 time)",
        "What becomes of its offsets",
    ]


def offset(topic: str, partition: int, base: str | None, at_ms: int | None) -> dict[str, Any]:
    """An offset as ``Group.describe()`` has it."""
    return {
        "topic": topic,
        "partition": partition,
        "expiry_rule": "a rule",
        "expiry_base": base,
        "expires_at_ms": at_ms,
    }


@pytest.mark.parametrize(
    ("group_type", "base", "at_ms", "changes"),
    [
        ("classic", "emptied", BEGIN, ("no change", "+ 1 h 0 min from when it leaves")),
        ("classic", "commit", BEGIN, ("+ 1 h 0 min from the commit", "+ 1 h 0 min from when it leaves")),
        ("consumer", "commit", BEGIN, ("+ 1 h 0 min from the commit", "no change")),
        ("classic", "own", BEGIN, ("+ 1 h 0 min from the commit", "no change")),
        ("classic", None, None, ("no change", "no change: counted anew when the last member has left")),
        ("share", None, None, ("no change", "no change")),
    ],
)
def test_what_becomes_of_offsets(
    group_type: str, base: str | None, at_ms: int | None, changes: tuple[str, str]
) -> None:
    """By the base of their retention: what a commit and what a member would change."""
    described = {
        "type": group_type,
        "protocol": None,
        "members": [],
        "offsets": [offset("t", 0, base, at_ms), offset("t", 1, base, at_ms)],
    }
    told = explanation(history(histories.silent_records())(0), described, HOUR, 5)
    (row,) = told.offsets
    assert (row.topic, row.partitions, row.kept_since, row.expires_at_ms) == ("t", "0-1", base, at_ms)
    assert (row.commit_now, row.member_now) == changes


def asking(name: str, assignor: str | None = None, *supported: str) -> dict[str, Any]:
    """A member of ``Group.describe()`` that asks for an assignor."""
    return {
        "client_id": name,
        "client_host": "h",
        "supported_protocols": list(supported),
        "assignor": assignor,
    }


def chosen(kind: str, winner: str | None, *members: dict[str, Any]) -> tuple[str | None, str] | None:
    """The winner and how it was chosen."""
    choice = protocol_choice({"type": kind, "protocol": winner, "members": list(members)})
    return None if choice is None else (choice.winner, choice.how)


def test_how_an_assignor_was_chosen() -> None:
    """Of a KIP-848 group records have the votes; candidates are those of members with the classic protocol."""
    choice = protocol_choice(
        {
            "type": "consumer",
            "protocol": "range",
            "members": [asking("a", "range"), asking("b", "range"), asking("c", None, "range", "sticky")],
        }
    )
    assert choice == ProtocolChoice(
        winner="range",
        how="2 of 3 members ask for it",
        votes=(
            Vote(member="a on h", candidates=None, vote="range"),
            Vote(member="b on h", candidates=None, vote="range"),
            Vote(member="c on h", candidates=("range", "sticky"), vote=None),
        ),
    )
    assert chosen("consumer", "range", asking("a", "uniform"), asking("b", "range")) == (
        None,
        "as many members ask for range as for uniform: the log does not show which",
    )
    assert chosen("consumer", None, asking("a")) == (
        None,
        "no member asks for an assignor: it is the first one of the brokers' group.consumer.assignors",
    )


def test_how_a_classic_protocol_was_chosen() -> None:
    """Its record has the winner only; a group without members or of another kind has no choice."""
    assert chosen("classic", "range", asking("a", None, "range")) == (
        "range",
        "most of the votes among what all members support; a record has the winner, and no candidate or vote",
    )
    assert chosen("classic", None) is None
    assert chosen("share", None, asking("a")) is None
    told = msgspec.structs.replace(
        TOLD, protocol=protocol_choice({"type": "classic", "protocol": "range", "members": [asking("a")]})
    )
    question, table = explanation_tables(told)[-1]
    assert question.startswith("How its protocol was chosen (range: most of the votes")
    assert list(table.rows) == [("g", "a on h", None, None)]
