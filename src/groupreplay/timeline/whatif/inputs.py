"""What is played: the clients' moments and the recorded settings, or why a history cannot be played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.coordinator.simulation.consumer import STRATEGIES
from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.state.conditions.rebalance_storm import RebalanceStorm
from groupreplay.state.phrases import counted, milliseconds
from groupreplay.state.policy.context import ASSUMED_SESSIONS, SessionSettings
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.moments import Moments, moments
from groupreplay.timeline.whatif.recorded import Recorded, places_of, recorded
from groupreplay.timeline.whatif.settings import (
    AUTO,
    CHECK,
    COMMIT,
    CONSUMER_HEARTBEAT,
    CONSUMER_SESSION,
    HEARTBEAT,
    INITIAL_DELAY,
    INSTANCE,
    NONE,
    POLL,
    PROTOCOL,
    RETENTION,
    SESSION,
    STRATEGY,
    PlaySettings,
)

#: A shorter history shows too little.
_SHORTEST_MS: Final = 60_000
_MINUTE_MS: Final = 60_000
#: Commits that show what is usual.
_LEAST_COMMITS: Final = 4
#: The kinds of groups that the clients of the model can be.
_PLAYED: Final = frozenset({GroupType.CLASSIC.value, GroupType.CONSUMER.value})
#: An assignor of Kafka's -> the one of the model that does the same: its ``range`` deals partitions out in turn.
_PLAYED_BY: Final = {"roundrobin": "range"}


class Unplayable(Exception):  # noqa: N818 -- an answer, which the command words as an error
    """A history that cannot be played; the text says why, in one sentence without an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBroker:
    """The broker's numbers: milliseconds; None: neither the log nor a flag has it. ``session``: of consumer groups."""

    retention_ms: int | None = None
    check_interval_ms: int | None = None
    session: SessionSettings = ASSUMED_SESSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayInputs:
    """What all draws have in common. ``assumed``: the settings that no record has, by name, as they are played.

    ``storms``: how often the group began to rebalance more than its members explain.
    """

    group_id: str
    begin_ms: int
    end_ms: int
    interval_ms: int
    partitions: int
    moments: Moments
    settings: PlaySettings
    assumed: Mapping[str, SettingValue]
    left_out: int
    storms: int


def play_inputs(
    history: GroupHistory,
    broker: RecordedBroker,
    stated: Mapping[str, SettingValue],
    since_ms: int | None = None,
) -> PlayInputs:
    """What is played of a history; ``stated``: what somebody knows of its settings, and no record has.

    Raises:
        Unplayable: it cannot be played.
    """
    known = recorded(history, since_ms)
    if known is None:
        raise Unplayable("the log has no generation with members of it")
    _need_playable(known)
    settings, assumed = _settings(known, broker, stated)
    return PlayInputs(
        group_id=history.group_id,
        begin_ms=known.begin_ms,
        end_ms=known.end_ms,
        interval_ms=known.commits.interval_ms,
        partitions=len(places_of(known.changes)),
        moments=moments(known),
        settings=settings,
        assumed=assumed,
        left_out=known.left_out,
        storms=sum(
            event.name == RebalanceStorm.NAME
            and event.text("status") != "resolved"
            and event.time_ms > known.begin_ms
            for event in history.events
        ),
    )


def _need_playable(known: Recorded) -> None:
    """Raises ``Unplayable``."""
    if known.group_type not in _PLAYED:
        raise Unplayable(
            f"it is a {known.group_type} group, and only histories of classic and consumer groups can be played"
        )
    length_ms = known.end_ms - known.begin_ms
    if length_ms < _SHORTEST_MS:
        after = f" after {counted(known.left_out, 'rebalance')} with a gap behind" if known.left_out else ""
        raise Unplayable(
            f"its history without a gap is too short: {milliseconds(max(length_ms, 0))}{after}, and "
            f"{milliseconds(_SHORTEST_MS)} are needed"
        )
    subscriptions = {
        member.topics for each in known.generations for member in each.members.values() if member.topics
    }
    if len(subscriptions) > 1:
        raise Unplayable("its members subscribe to different topics, which the clients of the model do not")
    if not places_of(known.changes):
        raise Unplayable("the log has no assignment of it that can be read, so it is no group of consumers")
    if not known.commits.interval_ms or max(map(len, known.commits.of_place.values())) < _LEAST_COMMITS:
        raise Unplayable(
            f"no partition of it has {_LEAST_COMMITS} commits, so when it stood still is not known"
        )


def _settings(
    known: Recorded, broker: RecordedBroker, stated: Mapping[str, SettingValue]
) -> tuple[PlaySettings, dict[str, SettingValue]]:
    """The recorded settings with the assumed ones; and those."""
    is_static = known.usual("instance_id") is not None
    values: dict[str, SettingValue] = {
        COMMIT: known.commits.interval_ms,
        INSTANCE: AUTO if is_static else NONE,
        PROTOCOL: known.group_type,
    }
    if not known.is_consumer:
        values[STRATEGY] = _strategies(known)
    values |= {name: value for name, value in _timeouts(known).items() if value is not None}
    default = PlaySettings(values=values)
    recorded_session, assumed = (
        _consumer_session(broker.session) if default.is_consumer else ({}, _pace(default))
    )
    values |= recorded_session
    for name, number, unit in (
        (RETENTION, broker.retention_ms, _MINUTE_MS),
        (CHECK, broker.check_interval_ms, 1),
    ):
        (assumed if number is None else values)[name] = (
            default[name] if number is None else max(1, number // unit)
        )
    assumed = {name: value for name, value in assumed.items() if name not in stated}
    return PlaySettings(values={**values, **assumed, **stated}), assumed


def _pace(default: PlaySettings) -> dict[str, SettingValue]:
    """What the log of a classic group does not have."""
    return {
        HEARTBEAT: min(default[HEARTBEAT], max(1, default[SESSION] // 3)),
        INITIAL_DELAY: default[INITIAL_DELAY],
    }


def _consumer_session(session: SessionSettings) -> tuple[dict[str, SettingValue], dict[str, SettingValue]]:
    """The session and the heartbeats of a consumer group: those that it has set, and those that are assumed."""
    known, assumed = dict[str, SettingValue](), dict[str, SettingValue]()
    (known if session.timeout_from == "group" else assumed)[CONSUMER_SESSION] = session.timeout_ms
    (known if session.heartbeat_from == "group" else assumed)[CONSUMER_HEARTBEAT] = session.heartbeat_ms
    return known, assumed


def _timeouts(known: Recorded) -> dict[str, Any]:
    return {SESSION: known.usual("session_timeout_ms"), POLL: known.usual("rebalance_timeout_ms")}


def _strategies(known: Recorded) -> tuple[str, ...]:
    """The assignor of most generations.

    Raises:
        Unplayable: the model has none like it.
    """
    protocols = [each.protocol for each in known.generations]
    usual = max(set(protocols), key=protocols.count)
    usual = _PLAYED_BY.get(usual, usual)
    if usual not in STRATEGIES:
        raise Unplayable(
            f"its assignor is {usual}, and the clients of the model have {', '.join(STRATEGIES)}"
        )
    return (usual,)
