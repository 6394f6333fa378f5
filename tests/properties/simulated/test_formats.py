"""A log in an old format gives the states and events of the same log in the newest one.

What a format does not have is None or ``unknown``, and never made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from typing import Any, Final

import pytest

from groupreplay.codecs import GroupMetadataValue, OffsetCommitValue
from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import SimulationPlan, WrittenRecord, simulate
from groupreplay.state import Group
from support.histories.builders import CONTEXT, Raw, observed

_MINUTE_MS: Final = 60_000
_NEWEST: Final = "3.9"
Check = Callable[[Any, Any], bool]


def missing(_new: Any, old: Any) -> bool:
    """The old format does not have it."""
    return old is None


def later(new: Any, old: Any) -> bool:
    """Counted up to the record, as the time of the state is not there."""
    return 0 <= old - new < _MINUTE_MS


#: What differs without the time of the group's state (before 2.1), by the path in an event or a description.
_WITHOUT_TIME: Final[dict[str, Check]] = {
    "RebalanceCompleted.sync_ms": missing,
    "RebalanceCompleted.duration_upper_bound_ms": missing,
    "RebalanceCompleted.silent_ms": missing,
    "MemberLeft.elapsed_ms": later,
    "MemberLeft.reason": lambda _, old: old == "unknown",
    "RebalanceCompleted.gone.[].reason": lambda _, old: old == "unknown",
    # More reasons are left, and their sums count up to the record.
    "MemberLeft.candidates": lambda new, old: (
        {one["reason"] for one in new} <= {one["reason"] for one in old}
    ),
    "description.offsets.[].expiry_base": lambda new, old: (new, old) == ("emptied", "commit"),
    "description.offsets.[].expires_at_ms": lambda new, old: old <= new,
    "description.offsets.[].may_expire_at_ms": lambda new, old: old <= new,
}
#: Without rebalance timeouts (before 0.10.1) the session timeout counts for both, as Kafka loads it.
_WITHOUT_TIMEOUT: Final[dict[str, Check]] = {
    path: lambda new, old: (new, old) == (300_000, 45_000)
    for path in (
        "RebalanceCompleted.rebalance_timeout_ms",
        "RebalanceCompleted.members.[].rebalance_timeout_ms",
        "MemberUpdated.old.rebalance_timeout_ms",
        "MemberUpdated.new.rebalance_timeout_ms",
        "description.rebalance_timeout_ms",
        "description.members.[].rebalance_timeout_ms",
    )
}
#: Release -> what may differ in a group of dynamic members.
_DIFFER: Final[dict[str, dict[str, Check]]] = {
    "0.10.0": {**_WITHOUT_TIME, **_WITHOUT_TIMEOUT},
    "1.1": _WITHOUT_TIME,
    "2.1-IV0": {},
    "2.2": {},
}


@cache
def logs(scenario: str, release: str, *, seed: int = 1, retention_ms: int = -1) -> dict[str, list[Raw]]:
    """The log of each simulated group, written by this release of the protocol."""
    loaded = SCENARIOS[scenario].with_client({"retention.time.ms": retention_ms})
    plan = SimulationPlan(
        scenario=loaded,
        groups=3,
        duration_ms=20 * _MINUTE_MS,
        seed=seed,
        partitions=1,
        settings=Settings(scala=True, inter_broker_protocol_version=release),
    )
    (ids,) = plan.group_ids()
    found: dict[str, list[Raw]] = {group_id: [] for group_id in ids}
    for item in simulate(plan, ids):
        if isinstance(item, WrittenRecord):
            raw = Raw(item.key, item.value, item.offset, item.timestamp_ms)
            found[item.key.group].append(raw)  # type: ignore[union-attr]
    return found


def replayed(log: list[Raw]) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """The events, each with its name, and the description at the end."""
    group = Group("g", CONTEXT)
    events = group.apply(observed(log), 0)
    return [(type(one.fact).__name__, asdict(one.fact)) for one in events], group.describe()


def differences(path: str, new: Any, old: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ, by path; the elements of lists have the same one."""
    if isinstance(new, dict) and isinstance(old, dict):
        for key in {**new, **old}:
            yield from differences(f"{path}.{key}", new.get(key), old.get(key))
    elif path.endswith(".candidates") and new != old:
        yield path, new, old
    elif isinstance(new, list | tuple) and isinstance(old, list | tuple) and len(new) == len(old):
        for one, other in zip(new, old, strict=True):
            yield from differences(f"{path}.[]", one, other)
    elif new != old:
        yield path, new, old


@pytest.mark.parametrize("release", _DIFFER)
@pytest.mark.parametrize("scenario", ["mixed", "storm", "expiry", "transactions", "simple"])
def test_the_replay_of_an_old_format(scenario: str, release: str) -> None:
    """The same records, events and descriptions, except for what the format does not have."""
    allowed = _DIFFER[release]
    for group_id, log in logs(scenario, _NEWEST).items():
        old = logs(scenario, release)[group_id]
        assert [(raw.key, raw.offset, raw.at) for raw in old] == [
            (raw.key, raw.offset, raw.at) for raw in log
        ]
        (events, description), (old_events, old_description) = replayed(log), replayed(old)
        assert [name for name, _ in old_events] == [name for name, _ in events]
        found = list(differences("description", description, old_description))
        for (name, fact), (_, old_fact) in zip(events, old_events, strict=True):
            found += differences(name, fact, old_fact)
        for path, new, other in found:
            assert path in allowed, f"{path}: {new} is {other}"
            assert allowed[path](new, other), f"{path}: {new} is {other}"


@pytest.mark.parametrize("release", _DIFFER)
def test_the_versions_that_are_written(release: str) -> None:
    """At the thresholds of the broker, and all of them in one log."""
    versions = {"0.10.0": (0, 1), "1.1": (1, 1), "2.1-IV0": (2, 2), "2.2": (2, 3)}[release]
    values = [raw.value for log in logs("mixed", release).values() for raw in log if raw.value is not None]
    groups, offsets = ({one.version for one in values if isinstance(one, kind)} for kind in _KINDS)
    assert (groups, offsets) == ({versions[0]}, {versions[1]})


_KINDS: Final = (GroupMetadataValue, OffsetCommitValue)


@pytest.mark.parametrize("release", _DIFFER)
def test_members_have_no_instance_ids_before_version_3(release: str) -> None:
    """So the restart of a static member is told as that of a new member; nothing says that it is static."""
    scenario = "rolling-restart-3-static-eager"
    for group_id, log in logs(scenario, release).items():
        events, description = replayed(log)
        members = [one for name, fact in events if name == "RebalanceCompleted" for one in fact["members"]]
        assert {one["instance_id"] for one in (*members, *description["members"])} == {None}
        names = {name for name, _ in events}
        newest = {name for name, _ in replayed(logs(scenario, _NEWEST)[group_id])[0]}
        assert ("StaticReplaced" in newest, "StaticReplaced" in names) == (True, False)


@pytest.mark.parametrize("release", [*_DIFFER, _NEWEST])
def test_offsets_with_an_expiry_of_their_own(release: str) -> None:
    """Version 1 whatever the release, if the client asks for a retention time; the offset expires by it."""
    for log in logs("expiry", release, retention_ms=90_000).values():
        commits = [raw.value for raw in log if isinstance(raw.value, OffsetCommitValue)]
        assert {(one.version, one.expire_timestamp_ms - one.commit_timestamp_ms) for one in commits} == {
            (1, 90_000)
        }
        gone = [raw for raw in log if raw.value is None]
        assert gone
        _, description = replayed(log[: log.index(gone[0])])
        for offset in description["offsets"]:
            assert offset["expires_at_ms"] == offset["expire_timestamp_ms"] <= gone[0].at
