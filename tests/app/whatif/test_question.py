"""Questions: what is answered, refused, and how right the answers are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from groupreplay.app.whatif.question import STORM, UNSEEN, Question, asked_settings
from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, STATIC, Between
from groupreplay.coordinator.simulation.script_steps import Restart, ScriptedEvent
from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.timeline.whatif.answer import Range
from groupreplay.timeline.whatif.costs import Cost
from groupreplay.timeline.whatif.settings import AUTO, INSTANCE
from support.histories.builders import generation, member
from support.histories.played import BEGIN, CONTEXT, SECOND, commits, history_of, restarted
from support.simulated.whatif_scores import KINDS, Kind, history, markdown, scores


def question(changed: Mapping[str, SettingValue]) -> Question:
    """A small one."""
    return Question(changed=changed, stated={}, draws=10, seed=1)


def test_static_members_save_both_rebalances() -> None:
    """The member is away for ten seconds, less than its session."""
    answer = question({INSTANCE: AUTO}).answer(history_of(restarted(), 180 * SECOND), CONTEXT)
    rebalances = answer.costs[0]
    assert (answer.answered, answer.notes, rebalances.cost, rebalances.recorded) == (
        True,
        (UNSEEN,),
        Cost.REBALANCES,
        2,
    )
    assert rebalances.difference == Range(least=-2.0, median=-2.0, most=-2.0)


def test_a_comparison_has_both_on_one_axis() -> None:
    """What is recorded, and the middle one of the plays, in the time of the history; with what both rest on."""
    found = question({INSTANCE: AUTO}).comparison(history_of(restarted(), 180 * SECOND), CONTEXT)
    assert found.text == (
        "group.instance.id=auto: the middle one of 10 plays; assumed, because no record has it: heartbeat.interval.ms="
        f"3000, group.initial.rebalance.delay.ms=3000, offsets.retention.check.interval.ms=600000; {UNSEEN}"
    )
    assert found.costs[0] == "rebalances: recorded 2, with the other settings 0"
    assert [(lane.name, lane.rebalances_ms) for lane in found.lanes] == [
        ("recorded", (BEGIN + 60 * SECOND, BEGIN + 70 * SECOND)),
        ("with the other settings", ()),
    ]


def test_a_match_by_client_id_is_noted() -> None:
    """It came back on another host."""
    history = history_of(restarted(host="/10.9.9.9"), 180 * SECOND)
    assert question({INSTANCE: AUTO}).answer(history, CONTEXT).notes == (
        UNSEEN,
        "1 member that came back is matched by nothing but its client id",
    )


def test_a_storm_without_a_reason_is_refused_with_a_sentence() -> None:
    """The same two members rebalance each ten seconds: no step of a client explains that, so nothing is answered."""
    members = member("a", (0,)), member("b", (1,))
    records = [generation(number, *members, at=BEGIN + number * 10 * SECOND) for number in range(1, 40)]
    for place in range(2):
        records += commits(place, 11 * SECOND, 420 * SECOND)
    answer = question({INSTANCE: AUTO}).answer(history_of(records, 420 * SECOND), CONTEXT)
    assert (answer.answered, answer.notes) == (False, (STORM, UNSEEN))
    assert [each.other for each in answer.costs] == [None] * 4


def test_a_storm_of_restarts_is_refused_with_a_sentence_or_answered_rightly() -> None:
    """A member is restarted each 10 to 20 s: static members would have saved all of its rebalances."""
    event = ScriptedEvent(
        every_ms=Between(10 * SECOND_MS, 20 * SECOND_MS),
        steps=(Restart("random", Between(2 * SECOND_MS, 6 * SECOND_MS)),),
    )
    kind = Kind(name="storm", events=(event,), after={INSTANCE: STATIC}, asked={INSTANCE: AUTO}, hours=0.25)
    recorded, context = history(kind, 1, after=False)
    storms = [item for item in recorded.events if item.name == "rebalance.storm"]
    assert [item.text("status") for item in storms] == ["firing"]
    assert recorded.end_ms - recorded.events[0].time_ms > 10 * MINUTE_MS
    answer = kind.question(10).answer(recorded, context)
    if answer.answered:
        assert answer.costs[0].other == Range(least=0.0, median=0.0, most=0.0)
    assert answer.answered is (STORM not in answer.notes)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"group.consumer.session.timeout.ms": 50_000},
            "group.consumer.session.timeout.ms has no effect in the classic protocol (--set): add --set "
            "group.protocol=consumer, or leave it out",
        ),
        (
            {"group.protocol": "consumer", "session.timeout.ms": 9_000},
            "session.timeout.ms has no effect in the consumer protocol (--set): add --set group.protocol=classic, or "
            "leave it out",
        ),
        (
            {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 6_000},
            "no client and no broker starts with these settings, heartbeat.interval.ms = 6000 must be less than "
            "session.timeout.ms = 6000 (--set): change one of the two",
        ),
    ],
)
def test_settings_that_do_not_fit(changed: Mapping[str, SettingValue], sentence: str) -> None:
    """Without an effect in the protocol, or refused by Kafka together."""
    with pytest.raises(GroupReplayError) as caught:
        question(changed).answer(history_of(restarted(), 180 * SECOND), CONTEXT)
    assert (str(caught.value), caught.value.exit_code) == (sentence, ExitCode.USAGE)


def test_the_nearest_name_is_named() -> None:
    """Of a setting that nobody knows."""
    sentence = r"unknown setting 'session.timeout' .*did you mean session.timeout.ms\?"
    with pytest.raises(GroupReplayError, match=sentence):
        asked_settings({"session.timeout": "1"}, "--set")


@pytest.mark.parametrize(
    "name",
    ["static members", "shorter sessions", "cooperative", "KIP-848: static members", "KIP-848: classic"],
)
def test_the_range_holds_what_the_model_does_itself(name: str) -> None:
    """One history of each of some kinds: what is answered is right about rebalances, and they are answered."""
    asked = [kind for kind in KINDS if kind.name == name]
    ((kind, _, found),) = scores(asked, [3], 10, minutes=25)
    rebalances = found[Cost.REBALANCES]
    assert (rebalances.answered, rebalances.held, rebalances.wrong) == (1, 1, [])
    assert f"| {kind.name} | rebalances | 1 | 1 | 100 % | " in markdown([(kind.name, found)])
