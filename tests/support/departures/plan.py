"""Which members depart when and why: groups of real consumers, and what is done to them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Library = Literal["librdkafka", "java"]
Cause = Literal[
    "close",
    "unsubscribe",
    "kill",
    "stop",
    "slow",
    "slow, another joins",
    "blocked",
    "static close",
    "removed",
]
#: What happened in Kafka's words, by what was done.
REASONS: dict[str, str] = {
    "close": "left",
    "unsubscribe": "left",
    "removed": "left",
    "kill": "session_timeout",
    "stop": "session_timeout",
    # A classic static member sends no LeaveGroup; one of KIP-848 says that it comes back.
    "static close": "session_timeout",
    "slow": "poll_timeout",
    "slow, another joins": "poll_timeout",
    "blocked": "rebalance_timeout",
}
#: Those of which several happen to one group, in this order.
USUAL: Sequence[Cause] = ("close", "kill", "unsubscribe", "stop", "slow", "blocked")
TOPIC, QUIET_TOPIC = "departures", "departures-quiet"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Settings of the members of a group; ``own`` are those of the group itself (KIP-848), by Kafka's names."""

    name: str
    protocol: Literal["classic", "consumer"]
    session_ms: int
    poll_ms: int
    commit_ms: int = 5_000
    topic: str = TOPIC
    own: Mapping[str, int] = field(default_factory=dict)

    def settings(self, servers: str, group: str, client: str, library: Library) -> dict[str, object]:
        """Of one consumer."""
        found: dict[str, object] = {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": client,
            "group.protocol": self.protocol,
            "max.poll.interval.ms": self.poll_ms,
            "auto.commit.interval.ms": self.commit_ms,
            "auto.offset.reset": "earliest",
        }
        if library == "librdkafka":
            found["log_level"] = 0
        if self.protocol == "classic":
            found["session.timeout.ms"] = self.session_ms
            # A third, as with the defaults of both.
            found["heartbeat.interval.ms"] = min(3_000, self.session_ms // 3)
        return {name: value if library == "librdkafka" else str(value) for name, value in found.items()}


@dataclass(frozen=True)
class Departure:
    """One member that departs so many seconds after the begin."""

    member: str
    cause: Cause
    at_s: float
    instance: str | None = None
    #: When another member joins, if one does.
    joins_s: float | None = None


@dataclass(frozen=True)
class Cell:
    """A group: one member stays, the others depart one after another."""

    group: str
    profile: Profile
    library: Library
    departures: tuple[Departure, ...]
    #: Static members that are killed, and start again elsewhere before their session ends.
    replaced: tuple[Departure, ...] = ()
    #: Members that go on.
    stays: int = 1

    @property
    def end_s(self) -> float:
        """When the last departure is over, at the latest."""
        longest = max(self.profile.session_ms, self.profile.poll_ms) / 1_000 + 20
        return max(one.at_s for one in self.departures) + longest


CLASSIC_SHORT = Profile(name="short session", protocol="classic", session_ms=6_000, poll_ms=120_000)
CLASSIC_OFTEN = replace(
    CLASSIC_SHORT, name="short session, frequent commits", commit_ms=1_000, poll_ms=12_000
)
CLASSIC_QUIET = replace(CLASSIC_SHORT, name="short session, nothing to read", topic=QUIET_TOPIC)
CLASSIC_DEFAULT = Profile(name="defaults", protocol="classic", session_ms=45_000, poll_ms=300_000)
CLASSIC_MINUTE = replace(CLASSIC_DEFAULT, name="default session, 60 s to poll", poll_ms=60_000)
CONSUMER_DEFAULT = Profile(name="defaults", protocol="consumer", session_ms=45_000, poll_ms=300_000)
CONSUMER_MINUTE = replace(CONSUMER_DEFAULT, name="default session, 60 s to poll", poll_ms=60_000)
CONSUMER_TENTH = replace(CONSUMER_DEFAULT, name="default session, 20 s to poll", poll_ms=20_000)
CONSUMER_SHORT = Profile(
    name="session shortened by the broker", protocol="consumer", session_ms=8_000, poll_ms=30_000
)
CONSUMER_OFTEN = replace(CONSUMER_SHORT, name="shortened, frequent commits", commit_ms=1_000, poll_ms=15_000)
CONSUMER_QUIET = replace(CONSUMER_SHORT, name="shortened, nothing to read", topic=QUIET_TOPIC)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
CONSUMER_OWN = replace(
    CONSUMER_SHORT, name="a short session of its own", own={SESSION: 8_000, HEARTBEAT: 2_000}
)
CONSUMER_OWN_LONG = replace(
    CONSUMER_SHORT,
    name="a long session of its own",
    session_ms=20_000,
    own={SESSION: 20_000, HEARTBEAT: 5_000},
)


@dataclass
class _Draft:
    """Cells in the making."""

    random: random.Random
    cells: list[Cell] = field(default_factory=list)

    def usual(self, profile: Profile, library: Library, causes: Sequence[Cause] = USUAL) -> None:
        """A group in which these causes happen one after the other."""
        name = f"g{len(self.cells):02}-{profile.protocol}-{library}"
        step_s = profile.session_ms / 1_000 + 17
        departures, at_s = [], 0.0
        joined: Sequence[Cause] = ["slow, another joins" if one == "slow" else one for one in causes]
        for number, cause in enumerate(joined if len(self.cells) % 2 else causes):
            # All of one host are killed at once, so that these times are the same in each group.
            later_s = 0.0 if cause in ("kill", "stop") else self.random.uniform(0, 4)
            joins_s = None
            if cause == "slow, another joins":
                joins_s = at_s + later_s + self.random.uniform(0, 0.8) * profile.poll_ms / 1_000
            elif cause == "blocked":
                joins_s = at_s + later_s + 1
            departures.append(Departure(f"{name}-{number}", cause, round(at_s + later_s, 1), joins_s=joins_s))
            at_s += step_s + (
                profile.poll_ms / 1_000 if cause not in ("close", "kill", "unsubscribe", "stop") else 0
            )
        self.cells.append(Cell(name, profile, library, tuple(departures)))

    def static(self, profile: Profile, library: Library) -> None:
        """A group of static members."""
        name = f"g{len(self.cells):02}-{profile.protocol}-static-{library}"
        step_s = profile.session_ms / 1_000 + 17
        causes: list[Cause] = ["removed", "static close", "kill"]
        departures = [
            Departure(f"{name}-{number}", cause, round(step_s * (number + 1), 1), f"{name}-i{number}")
            for number, cause in enumerate(causes)
        ]
        # A broker lets nobody take the place of a member of KIP-848 that has not said that it goes.
        cause: Cause = "kill" if profile.protocol == "classic" else "static close"
        back = Departure(f"{name}-r", cause, 3.0, f"{name}-ir")
        self.cells.append(Cell(name, profile, library, tuple(departures), (back,)))


def _few(share: float, count: int) -> int:
    return max(1, round(share * count))


def default_broker(seed: int, share: float = 1.0) -> list[Cell]:
    """Groups on a broker whose settings for groups are Kafka's defaults."""
    draft = _Draft(random.Random(seed))
    for _ in range(_few(share, 4)):
        draft.usual(CLASSIC_DEFAULT, "librdkafka", ("close", "kill", "unsubscribe", "stop"))
        draft.usual(CONSUMER_DEFAULT, "librdkafka", ("unsubscribe", "kill", "close", "stop"))
        draft.usual(CONSUMER_TENTH, "librdkafka", ("close", "kill", "slow", "stop", "blocked"))
    for _ in range(_few(share, 3)):
        for profile in (CLASSIC_DEFAULT, CONSUMER_DEFAULT):
            draft.usual(profile, "librdkafka", ("slow",))
            draft.usual(profile, "librdkafka", ("blocked",))
            draft.usual(profile, "java", ("slow",))
    for _ in range(_few(share, 2)):
        for profile in (CLASSIC_DEFAULT, CONSUMER_DEFAULT):
            draft.usual(profile, "java", ("close", "kill", "unsubscribe", "stop"))
            draft.usual(profile, "java", ("blocked",))
    for _ in range(_few(share, 1)):
        draft.usual(CLASSIC_MINUTE, "librdkafka", ("slow", "blocked", "close"))
        draft.usual(CONSUMER_MINUTE, "librdkafka", ("slow", "blocked", "close"))
        draft.usual(CLASSIC_MINUTE, "java", ("slow", "blocked"))
    for library in ("librdkafka", "java"):
        for profile in (CLASSIC_SHORT, CONSUMER_DEFAULT):
            draft.static(profile, library)
    for _ in range(_few(share, 3)):
        draft.usual(CONSUMER_OWN, "librdkafka")
    draft.usual(CONSUMER_OWN, "java")
    return draft.cells


def short_broker(seed: int, share: float = 1.0) -> list[Cell]:
    """Groups on a broker that has shortened the sessions of KIP-848."""
    draft = _Draft(random.Random(seed))
    for _ in range(_few(share, 7)):
        draft.usual(CONSUMER_SHORT, "librdkafka")
        draft.usual(CLASSIC_SHORT, "librdkafka")
    for _ in range(_few(share, 4)):
        draft.usual(CLASSIC_OFTEN, "librdkafka")
        draft.usual(CONSUMER_OFTEN, "librdkafka")
    for _ in range(_few(share, 4)):
        draft.usual(CLASSIC_SHORT, "java")
        draft.usual(CONSUMER_SHORT, "java")
    for _ in range(_few(share, 1)):
        draft.usual(CLASSIC_QUIET, "librdkafka")
        draft.usual(CONSUMER_QUIET, "librdkafka")
    for library in ("librdkafka", "java"):
        for profile in (CLASSIC_SHORT, CONSUMER_SHORT):
            draft.static(profile, library)
    for _ in range(_few(share, 2)):
        draft.usual(CONSUMER_OWN_LONG, "librdkafka")
    return draft.cells


def departures(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Departure]]:
    """All of them."""
    for cell in cells:
        for one in cell.departures:
            yield cell, one
