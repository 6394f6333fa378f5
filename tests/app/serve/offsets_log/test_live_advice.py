"""Advice on groups whose pages are open: once for each minute, from the newest events, by what reaches further back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from groupreplay.app.serve.offsets_log import live_advice
from groupreplay.app.serve.offsets_log.live_advice import LiveAdvice, use_now
from groupreplay.state import Context
from groupreplay.state.policy.context import ASSUMED_SESSIONS, SessionSettings
from groupreplay.timeline.advice.inputs import GroupUse
from groupreplay.timeline.states import TimelineInput
from support.histories.builders import generation, member, placed, replay
from support.pictures.deployments import GROUPS, rolled_events
from support.pictures.timelines import SOURCE


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> TimelineInput:
    """The events of a group with deployments, the newest first, as the history has them."""
    told, end_ms = rolled_events(tmp_path_factory.mktemp("rolled"))
    events = [event for event in map(json.loads, told) if event["data"].get("group_id") == GROUPS[1]]
    return TimelineInput(
        group_id=GROUPS[1], source=SOURCE, events=events[::-1], end_ms=end_ms, until_ms=end_ms + 1
    )


def test_it_is_made_once_a_minute(given: TimelineInput) -> None:
    """A page that is read again gets the same; in the next minute, and when the log was read, it is made anew."""
    advice = LiveAdvice()
    first = advice.of(given, GroupUse())
    assert first is not None
    assert advice.of(replace(given, events=()), GroupUse()) is first
    assert advice.of(replace(given, events=(), has_log=True), GroupUse()) is None
    assert advice.of(replace(given, events=(), end_ms=given.end_ms + 60_000), GroupUse()) is None


def test_it_is_about_all_that_is_known(given: TimelineInput, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever time the page shows; with more events than are read it begins with the first of the newest ones."""
    whole = LiveAdvice().of(replace(given, since_ms=given.end_ms - 60_000), GroupUse())
    assert whole is not None
    monkeypatch.setattr(live_advice, "_MOST_EVENTS", 12)
    cut = LiveAdvice().of(given, GroupUse())
    assert cut is not None
    assert whole.since_ms < cut.since_ms < cut.until_ms == whole.until_ms


def test_the_session_of_a_consumer_group() -> None:
    """By what is known of the brokers, as ``advise`` has it; of a group that the log does not have, the default."""
    session = SessionSettings(60_000, 60_000, 4_000, "broker", "broker")
    context = Context(cluster_id="c", era="e", sessions={"consumer": session})
    group, _ = replay(placed([generation(1, member("a"), at=1_000)]), context)
    assert use_now(group.describe(), context, 2_000).session == session
    assert use_now(None, context, 2_000).session == ASSUMED_SESSIONS
