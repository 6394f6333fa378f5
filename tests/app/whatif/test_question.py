"""Questions: what is answered, refused, and how right the answers are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from groupreplay.app.whatif.question import UNSEEN, Question, asked_settings
from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.timeline.whatif.answer import Range
from groupreplay.timeline.whatif.costs import Cost
from groupreplay.timeline.whatif.settings import AUTO, INSTANCE
from support.histories.played import BEGIN, CONTEXT, SECOND, history_of, restarted
from support.simulated.whatif_scores import KINDS, markdown, scores


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
    """What is recorded, and the middle one of the plays, in the time of the history."""
    found = question({INSTANCE: AUTO}).comparison(history_of(restarted(), 180 * SECOND), CONTEXT)
    assert found.text == "group.instance.id=auto: the middle one of 10 plays"
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
