"""What spares the rebalances of a member makes others wait for it: compared with a second play of the model."""

from __future__ import annotations

import pytest

from groupreplay.coordinator.simulation.scenario import ClientValue
from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, STATIC
from groupreplay.coordinator.simulation.script_steps import Restart, ScriptedEvent, Start, Stop
from groupreplay.timeline.advice.finding import Kind
from groupreplay.timeline.advice.words import effect_text
from support.simulated.advice_plays import Side, played
from support.simulated.advised import found, scripted

_INSTANCE, _SESSION = "group.instance.id", "session.timeout.ms"


def _scaled_while_away(away_ms: int, *joins_ms: int, **client: ClientValue) -> Side:
    """Every ten minutes one member is restarted, and while it is away others come, for some minutes."""
    starts = [Start(4 + number, at_ms=at_ms) for number, at_ms in enumerate(joins_ms)]
    stops = [Stop(start.member, at_ms=4 * MINUTE_MS) for start in starts]
    steps = Restart(0, away_ms), *starts, *stops
    return Side(scenario=scripted(ScriptedEvent(every_ms=10 * MINUTE_MS, steps=steps), **client), hours=2)


@pytest.mark.parametrize(
    ("kind", "before", "followed"),
    [
        (
            Kind.STATIC_MEMBERSHIP,
            _scaled_while_away(30 * SECOND_MS, 8 * SECOND_MS),
            {_INSTANCE: STATIC},
        ),
        (
            Kind.STATIC_MEMBERSHIP,
            _scaled_while_away(30 * SECOND_MS, 6 * SECOND_MS, 16 * SECOND_MS),
            {_INSTANCE: STATIC},
        ),
        (
            Kind.SESSION_TIMEOUT,
            _scaled_while_away(50 * SECOND_MS, 26 * SECOND_MS, **{_INSTANCE: STATIC, _SESSION: 20_000}),
            {_SESSION: 60_000},
        ),
    ],
    ids=["static membership", "two come", "session timeout"],
)
def test_others_would_have_waited_for_a_member_that_is_away(
    kind: Kind, before: Side, followed: dict[str, ClientValue]
) -> None:
    """A rebalance that a join begins waits for an absent static member: the advice costs standstill, and says so."""
    play = played(before, 3)
    finding = found(play.history, kind)
    assert finding is not None
    truth_ms = play.stopped_ms - played(before.with_client(followed), 3).stopped_ms
    (effect,) = (each for each in finding.effects if each.measure == "stopped_ms")
    assert effect.likely_least is not None
    assert effect.likely_most is not None
    assert effect.most is not None
    assert effect.least <= effect.likely_least <= truth_ms <= effect.likely_most <= effect.most
    assert truth_ms < 0
    assert effect_text(effect).startswith("but about ")
    assert finding.order_ms == 0
