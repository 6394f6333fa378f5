"""Twenty questions about incidents, with the calls that answer each: three at most, by a real client.

What is asked about is simulated, so the answers are known: from what a scenario does to its groups, and from the true
states that the simulation writes beside its capture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.mcp.test_server import Call, asked, document, simulated, text_of

Answers = Sequence[Any]
DAY_MS = 86_400_000
END_MS = 1_767_232_800_001
STUCK, POISON, EXPIRY = "stuck-000000", "poison-000000", "expiry-000000"
DEPLOYED, STOPPED = "deployment-000000", "deployment-000001"
CRASHING, SLOW = "crash-loop-000000", "timeouts-000000"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the calls that answer it, what an assistant takes from the answers, and what that has to be.

    Attributes:
        kilobytes: the most that all its answers may have.
    """

    text: str
    calls: tuple[Call, ...]
    kilobytes: int
    facts: Callable[[Answers], Any]
    expected: Any


def of_events(*names: str) -> Callable[[Answers], Any]:
    """These fields of each event in the first answer."""
    return lambda answers: [tuple(event["data"][name] for name in names) for event in answers[0]]


def events(group: str, *types: str, **given: Any) -> Call:
    """A call for events of these types."""
    return "events", {"group": group, "types": list(types), **given}


#: Scenario -> the questions about its two groups over two hours.
QUESTIONS: Mapping[str, Sequence[Question]] = {
    "stuck": (
        Question(
            "Which groups had the worst incidents, and of which cause?",
            (("overview", {}),),
            30,
            lambda answers: [(group["group_id"], group["diagnosis"][0]["cause"]) for group in answers[0]],
            [(STUCK, "slow_rejoin"), ("stuck-000001", "slow_rejoin")],
        ),
        Question(
            "For whom did the rebalance wait, and on which host is that?",
            (("explain", {"group": STUCK}),),
            20,
            lambda answers: [
                (member["client_id"], member["client_host"])
                for member in answers[0][0]["diagnosis"][0]["blamed"]
            ],
            [(f"{STUCK}-1", "10.0.0.1")],
        ),
        Question(
            "When did it end, and in which generation?",
            (events(STUCK, "rebalance.completed", until="2026-01-01T00:10:00Z"),),
            10,
            lambda answers: [(event["time"], event["data"]["generation"]) for event in answers[0]][-1],
            ("2026-01-01T00:07:40.681Z", 2),
        ),
        Question(
            "In which state was the group at 00:05?",
            (("describe", {"group": STUCK, "at": "2026-01-01T00:05:00Z"}),),
            20,
            lambda answers: [(group["state"], group["generation"]) for group in answers[0]],
            [("PreparingRebalance", 1)],
        ),
        Question(
            "Are both groups well now, and after how many generations?",
            (("list_groups", {"state": "stable"}),),
            5,
            lambda answers: [(row["group_id"], row["generation"], row["risk"]) for row in answers[0]],
            [(STUCK, 7, None), ("stuck-000001", 7, None)],
        ),
    ),
    "poison": (
        Question(
            "Which partition does not move, and on which offset does it stand?",
            (events(POISON, "partition.poison"),),
            5,
            of_events("topic", "partition", "offset"),
            [(f"{POISON}-input", 0, 2282)],
        ),
        Question(
            "Is that over?",
            (("explain", {"group": POISON}),),
            20,
            lambda answers: [(found["cause"], found["until_ms"]) for found in answers[0][0]["diagnosis"][:1]],
            [("partition_stuck", END_MS)],
        ),
        Question(
            "Who has the partition now, and is it the offset that it had then?",
            (("describe", {"group": POISON}),),
            20,
            lambda answers: (
                [
                    member["client_id"]
                    for member in answers[0][0]["members"]
                    if 0 in member["partitions"].get(f"{POISON}-input", ())
                ],
                [place["offset"] for place in answers[0][0]["offsets"] if place["partition"] == 0],
            ),
            ([f"{POISON}-0"], [2282]),
        ),
    ),
    "expiry": (
        Question(
            "Since when has the group had no members?",
            (("describe", {"group": EXPIRY}),),
            10,
            lambda answers: [(group["state"], group["since_ms"], group["members"]) for group in answers[0]],
            [("Empty", 1_767_227_173_229, [])],
        ),
        Question(
            "When are its offsets lost, and by which rule?",
            (("describe", {"group": EXPIRY}),),
            10,
            lambda answers: {
                (place["expires_at_ms"], place["expiry_rule"]) for place in answers[0][0]["offsets"]
            },
            {(1_767_227_173_229 + 7 * DAY_MS, "classic, Empty")},
        ),
        Question(
            "Was it stopped, or did it crash?",
            (events(EXPIRY, "member.left"),),
            5,
            of_events("client_id", "reason", "unplanned"),
            [(f"{EXPIRY}-0", "left", False)],
        ),
    ),
    "deployment": (
        Question(
            "Was there an incident?",
            (("overview", {}),),
            5,
            lambda answers: answers[0],
            [],
        ),
        Question(
            "When was the group without members because of a deployment?",
            (events(STOPPED, "group.emptied"),),
            5,
            of_events("since_ms"),
            [(1_767_226_176_787,), (1_767_230_646_298,)],
        ),
        Question(
            "How many generations did the deployments of the other group cost?",
            (events(DEPLOYED, "rebalance.completed"),),
            40,
            of_events("generation"),
            [(number,) for number in range(1, 7)],
        ),
        Question(
            "Which setting would make a deployment cheaper, and may the group move to the new protocol?",
            (("advise", {"group": DEPLOYED}), ("ready", {"to": "consumer", "group": DEPLOYED})),
            10,
            lambda answers: (
                [found["setting"] for found in answers[0][-1]["findings"]],
                [row["verdict"] for row in answers[1]],
            ),
            (["partition.assignment.strategy"], ["ready"]),
        ),
    ),
    "crash-loop": (
        Question(
            "Which process starts again and again?",
            (events(CRASHING, "static.crash_loop"),),
            5,
            of_events("instance_id", "place"),
            [(f"{CRASHING}-i1", f"{CRASHING}-1@/10.0.0.1")],
        ),
        Question(
            "Have its starts cost a rebalance?",
            (events(CRASHING, "static.replaced"), ("list_groups", {"group": CRASHING})),
            60,
            lambda answers: (
                {event["data"]["rebalanced"] for event in answers[0]},
                [row["generation"] for row in answers[1]],
            ),
            ({False}, [1]),
        ),
    ),
    "timeouts": (
        Question(
            "Which member is removed again and again, and after which timeout?",
            (events(SLOW, "rebalance.timeouts"),),
            5,
            of_events("client_id", "rebalance_timeout_ms"),
            [(f"{SLOW}-1", 30_000)],
        ),
        Question(
            "Why did it leave each time?",
            (events(SLOW, "member.left", min_severity="warn"),),
            20,
            lambda answers: {(event["data"]["client_id"], event["data"]["reason"]) for event in answers[0]},
            {(f"{SLOW}-1", "poll_timeout")},
        ),
        Question(
            "How far is the group behind?",
            (("lag", {"group": SLOW}),),
            10,
            lambda answers: {(row["lag"], *row["lag_notes"]) for row in answers[0]},
            # What no prober has recorded is not a number.
            {(None, "the ends of the partition were not recorded")},
        ),
    ),
}


def test_there_are_twenty() -> None:
    """None of them needs more than three calls."""
    every = [question for questions in QUESTIONS.values() for question in questions]
    assert len(every) == 20
    assert [question.text for question in every if len(question.calls) > 3] == []


@pytest.mark.parametrize("scenario", QUESTIONS)
def test_the_calls_answer_the_questions(tmp_path: Path, scenario: str) -> None:
    """What is known of the incident is in the answers, in full and within the bound of bytes."""
    questions = QUESTIONS[scenario]
    calls = [call for question in questions for call in question.calls]
    _, answers = asked(simulated(tmp_path, scenario), calls)
    waiting = iter(answers)
    for question in questions:
        taken = [next(waiting) for _ in question.calls]
        documents = [document(answer) for answer in taken]
        assert [one["left_out"] for one in documents] == [{}] * len(taken), question.text
        assert sum(len(text_of(answer)) for answer in taken) <= question.kilobytes * 1_000, question.text
        assert question.facts([one["result"] for one in documents]) == question.expected, question.text
