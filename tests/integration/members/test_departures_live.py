"""Real members leave for known causes: what is said about them is what the broker has logged.

A few of each cause, on one broker at the same time; ``benchmarks/members/departures.py`` has hundreds.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.departures.plan import (
    CLASSIC_OFTEN,
    CONSUMER_OFTEN,
    CONSUMER_OWN,
    Cause,
    Cell,
    Departure,
    Profile,
)
from support.departures.recorded import SHORTENED, Recording, record
from support.departures.scores import left_events

pytestmark = pytest.mark.broker

#: The session is far longer than a machine that is busy delays commits and heartbeats: with one of 6 s the members
#: that work on are removed as well, or a member that leaves on purpose would have been silent as long.
LONG_SESSION = replace(CLASSIC_OFTEN, name="a session of 25 s", session_ms=25_000, poll_ms=300_000)
#: On this broker, whose sessions of KIP-848 last 20 s; and a group whose own last 8 s.
CONSUMER = replace(CONSUMER_OFTEN, name="a session of 20 s", session_ms=20_000, poll_ms=300_000)
OWN = replace(CONSUMER_OWN, commit_ms=1_000, poll_ms=300_000)
FROZEN = Cell("frozen", LONG_SESSION, "librdkafka", (Departure("frozen-c", "stop", 2.0),), stays=2)


def cell(group: str, profile: Profile, **causes: Cause) -> Cell:
    """A group whose members leave at these seconds (``s4="close"``)."""
    gone = tuple(Departure(f"{group}-{at}", cause, float(at[1:])) for at, cause in causes.items())
    return Cell(group, profile, "librdkafka", gone)


CELLS = (
    FROZEN,
    cell("classic-a", CLASSIC_OFTEN, s4="close", s5="unsubscribe"),
    cell("classic-b", CLASSIC_OFTEN, s2="kill"),
    cell("consumer-a", CONSUMER, s4="close", s5="unsubscribe"),
    cell("consumer-b", CONSUMER, s2="stop"),
    cell("consumer-c", CONSUMER, s2="kill"),
    cell("own-a", OWN, s2="kill"),
    cell("own-b", OWN, s4="close"),
)
#: Until the frozen one is removed and the others have rejoined.
SECONDS = 40.0
#: The groups begin at once.
SETTINGS = {**SHORTENED, "group.initial.rebalance.delay.ms": 0, "group.consumer.session.timeout.ms": 20_000}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """All departures, recorded."""
    return record(tmp_path_factory.mktemp("departures"), "few", CELLS, SETTINGS, print, seconds=SECONDS)


@pytest.mark.parametrize("probed", [True, False])
def test_what_is_stated_is_what_the_broker_did(recording: Recording, probed: bool) -> None:
    """No stated reason is wrong, and no unknown one lacks the truth among its candidates."""
    score = recording.score(probed=probed)
    assert (score.missing, score.wrong, score.departures) == ([], [], len(recording.done))
    assert score.among == score.unknown <= 3


@pytest.mark.parametrize("probed", [True, False])
def test_a_session_of_the_groups_own(recording: Recording, probed: bool) -> None:
    """It is in the sum in place of the brokers', and nothing is assumed: the prober, or the capture, has read it."""
    left = {
        event["data"]["group_id"]: event["data"]
        for event in left_events(recording.capture, probed=probed)
        if event["data"]["group_id"].startswith("own-")
    }
    killed = left["own-a"]
    sums = {one["reason"]: one["timeout_ms"] for one in killed["candidates"]}
    assert (killed["reason"], sums["session_timeout"], killed["assumed"]) == ("session_timeout", 8_000, {})
    assert (left["own-b"]["reason"], left["own-b"]["assumed"]) == ("left", {})


def test_a_frozen_consumer_is_named(recording: Recording) -> None:
    """SIGSTOP for one of three: a WARN with its name and the reason, also without the events of members."""
    (told,) = [
        one
        for one in left_events(recording.capture, all_members=False)
        if one["data"]["group_id"] == FROZEN.group
    ]
    assert (told["severitytext"], told["data"]["unplanned"]) == ("WARN", True)
    assert (told["data"]["client_id"], told["data"]["reason"]) == ("frozen-c", "session_timeout")
