"""What the exporter keeps of a condition: who it is about, in bounded size, whatever a message has.

Documents of groups as the exporter keeps them. Counts of a day in bounded memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from groupreplay.state import Event
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.conditions.tracker import group_hash
from groupreplay.state.events.group_events import MemberLeft
from groupreplay.streaming.sinks import known_groups
from groupreplay.streaming.sinks.event_topic import Repeats
from groupreplay.streaming.sinks.known_groups import (
    EVENTS,
    CountedEvent,
    Day,
    HeldForm,
    Holding,
    KnownGroup,
    bound,
    group_label,
    known_group,
)
from support.histories.probed import START
from support.job.sink_messages import (
    CLUSTER,
    HOSTILE_IDS,
    SINCE_MS,
    counted,
    document,
    events,
    expired,
    stable,
    stuck,
)

MEMBER = {"member_id": "m", "client_id": "pods-7", "client_host": "/10.0.0.7", "instance_id": None}

STUCK, CONFLICT = "rebalance.stuck", "static.conflict"


def held(severity: str = "WARN", **fields: Any) -> Holding:
    """A condition with these fields, as JSON and back."""
    form = {
        "condition": "x",
        "severity": severity,
        "condition_id": "i",
        "since_ms": 5,
        "runbook": "r",
        **fields,
    }
    return msgspec.json.decode(msgspec.json.encode(form), type=HeldForm).holding()


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({}, ""),
        (
            {"condition": STUCK, "suspects": [{**MEMBER, "reason": "no_commit_since_start"}]},
            "suspects: pods-7 on 10.0.0.7 (no commit since start)",
        ),
        ({"condition": STUCK, "suspects": [], "blockers": None}, ""),
        (MEMBER, "pods-7 on 10.0.0.7"),
        ({"topic": "orders", "partition": 3}, "orders-3"),
        (
            {"condition": CONFLICT, "instance_id": "i-1", "places": ["a@h1", "a@h2", "a@h1"]},
            "instance i-1: a on h1 and a on h2",
        ),
        ({"condition": STUCK, "suspects": 5}, ""),
        ({"condition": STUCK, "suspects": [5]}, ""),
        ({"condition": CONFLICT, "places": 5}, ""),
    ],
)
def test_who(fields: dict[str, Any], who: str) -> None:
    """Suspects, the member, the partition or the places; nothing of what the job cannot have written."""
    assert held(**fields).who == who


def test_blockers_are_proven() -> None:
    """Members that block are named with what they hold."""
    blocker = {**MEMBER, "revoking": {"orders": "0-3"}, "fenced_at_ms": None}
    assert held(condition=STUCK, blockers=[blocker]).who == "blocked by pods-7 on 10.0.0.7 (holds orders 0-3)"


def test_an_info_is_kept_small() -> None:
    """Any number of groups may have an INFO, and no alert needs its id."""
    assert held("INFO", **MEMBER) == Holding("x", "INFO")


def test_the_size_is_bounded() -> None:
    """Client ids may be 30 000 bytes long."""
    found = held(**{**MEMBER, "client_id": "x" * 30_000}, runbook="y" * 30_000, condition_id="z" * 30_000)
    assert max(map(len, (found.who, found.runbook, found.condition_id))) < 400


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.NAME)
def test_every_condition_can_be_kept(kind: Any) -> None:
    """The fields of each kind fit, and only conditions of a whole group are about nobody."""
    for example in kind.EXAMPLES:
        fields = msgspec.to_builtins(dict(example.fields))
        found = held(**{"condition": kind.NAME, **fields})
        assert found.condition == kind.NAME
        members = fields.get("blockers") or fields.get("suspects")
        about_one = {"member_id", "topic", "instance_id", "producer_id"} & {*fields} or members
        assert bool(found.who) == bool(about_one)


def test_a_group_that_does_not_matter_raises_no_alert() -> None:
    """Offsets that expire are a warning on its page, and nobody is told of them."""
    assert held("WARN", matters=False) == Holding("x", "WARN")
    assert held("WARN", matters=True).condition_id == "i"


def test_a_document() -> None:
    """The fields that become metrics; the generation of a newer kind of group is its epoch."""
    value = document(stuck()[0], labels={"team": "pay"})
    expected = KnownGroup(
        label="g",
        cluster_id=CLUSTER,
        type="classic",
        state="PreparingRebalance",
        generation=5,
        since_ms=SINCE_MS,
        member_count=2,
        next_expiry_ms=None,
        conditions=tuple(
            Holding(
                name,
                severity,
                condition_id=f"{group_hash('g')}-{name}-{SINCE_MS}",
                since_ms=SINCE_MS,
                runbook=f"docs/runbook.md#{name.replace('.', '-')}",
            )
            for name, severity in (("rebalance.slow", "WARN"), ("rebalance.stuck", "ERROR"))
        ),
        labels={"team": "pay"},
    )
    assert known_group(value) == expected
    newer = msgspec.json.encode({**msgspec.json.decode(value), "generation": None, "group_epoch": 9})
    assert known_group(newer) == msgspec.structs.replace(expected, generation=9)
    assert known_group(b"no document") is None


def test_the_worst_condition() -> None:
    """ERROR before WARN before every other severity; None without a condition."""
    group = known_group(document(stable()[0]))
    assert group is not None
    held = [Holding("a", "INFO"), Holding("b", "WARN"), Holding("c", "ERROR")]
    worst = [msgspec.structs.replace(group, conditions=tuple(held[:count])).worst for count in range(4)]
    assert worst == [None, "INFO", "WARN", "ERROR"]


def test_what_groups_have_in_common_is_kept_once() -> None:
    """Labels, conditions and the texts that many groups share are the same objects."""
    one, two = (known_group(document(stuck()[0], name, {"team": "pay"})) for name in ("a", "b"))
    assert one is not None
    assert two is not None
    for name in ("cluster_id", "type", "state", "conditions", "labels"):
        assert getattr(one, name) is getattr(two, name), name


def test_a_long_id_is_not_kept() -> None:
    """An id of 30 000 characters takes as much as its label."""
    group = known_group(document(stable()[0], "x" * 30_000))
    assert group is not None
    assert group.label == group_label("x" * 30_000)
    assert len(group.label) == 273


def test_ordinary_ids_are_exact() -> None:
    """Whatever a label can hold and a screen can show stays, so that series join with other exporters'."""
    ordinary = ("pay-1", "team.app_2", 'quote"s', "back\\slash", "{curly}=", "gruppe-ä-グループ", "x" * 256)
    assert [group_label(name) for name in ordinary] == list(ordinary)


def test_hostile_ids() -> None:
    """Short, one line, without control characters, and never two the same."""
    labels = [group_label(name) for name in HOSTILE_IDS]
    assert len(set(labels)) == len(HOSTILE_IDS)
    assert [label for label in labels if not label.isprintable() or len(label) > 273 or not label] == []
    assert group_label("line\nbreak") == r"line\u{a}break#" + "697affca60d5d0dc"


def test_groups_that_are_gone_are_dropped_first() -> None:
    """Beyond the limit half of the groups are dropped: first those without a document, then the oldest."""
    by_group = dict.fromkeys("abcdefg", 1)
    assert bound(by_group, {"a", "b", "g"}, 7) == 0
    by_group["h"] = 1
    assert bound(by_group, {"a", "b", "g"}, 7) == 3
    assert [*by_group] == ["a", "b", "f", "g", "h"]
    assert bound(by_group, by_group.keys() - {"f"}, 4) == 2
    assert [*by_group] == ["b", "g", "h"]


def about(event: bytes, group: str) -> bytes:
    """The same event about another group."""
    plain = msgspec.json.decode(event)
    return msgspec.json.encode({**plain, "id": group, "data": {**plain["data"], "group_id": group}})


def test_a_crowd_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups have events, counts are kept of as many as the limit, and the number dropped is known."""
    monkeypatch.setattr(bound, "__defaults__", (10,))
    rebalanced = next(event for event in events(stable()[1]) if b"rebalance.completed" in event)
    fired = next(event for event in events(stuck()[1]) if b'"firing"' in event)
    lost = events([expired(1)])[0]
    snapshot = counted(
        about(event, f"{kind}{number}")
        for number in range(100)
        for kind, event in (("r", rebalanced), ("f", fired), ("l", lost))
    )
    today = snapshot.today
    sizes = [len(one) for one in (today.rebalances, today.expired, today.fired, snapshot.rebalanced_ms)]
    assert all(5 <= size <= 10 for size in sizes), sizes
    assert today.forgotten == 300 - sum(sizes[:3])
    assert today.events["rebalance.completed", "INFO"] == 100


def test_a_member_that_is_lost() -> None:
    """Only one that nobody had stopped counts: its event has the severity WARN."""
    fact = MemberLeft(
        member_id="m",
        client_id="c",
        client_host="/h",
        instance_id=None,
        reason="session_timeout",
        elapsed_ms=1,
        unplanned=True,
    )
    emitted = [
        Event(fact=one, group_id="g", time_ms=START, ordinal=number)
        for number, one in enumerate((fact, replace(fact, unplanned=False)))
    ]
    assert counted(events(emitted)).today.lost.total() == 1


def test_repeats_are_remembered_for_a_while() -> None:
    """The latest 200 000 ids; an id costs the same, however many were forgotten before."""
    repeats = Repeats()
    assert not any(repeats.has(str(number)) for number in range(600_000))
    assert repeats.has("599999")
    assert repeats.has("400000")
    assert not repeats.has("399999")


def test_a_crowd_of_names() -> None:
    """Events of unknown names are counted by name up to a limit, and together beyond it."""
    (value,) = events([expired(1)])
    day, plain = Day(), msgspec.json.decode(value)
    for number in range(500):
        event = EVENTS.decode(msgspec.json.encode({**plain, "type": f"groupreplay.e{number}.v1"}))
        assert event is not None
        day.count(event, ())
    assert (len(day.events), day.events["other", "other"]) == (known_groups._MOST_NAMES + 1, 300)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00", "9999-12-31T23:59:59Z", "soon", "", "1e99"])
def test_times_that_no_calendar_has(time: str) -> None:
    """A completed rebalance with such a time has a time all the same, and raises nothing."""
    (value,) = [event for event in events(stable()[1]) if b"rebalance.completed" in event][:1]
    event = EVENTS.decode(msgspec.json.encode({**msgspec.json.decode(value), "time": time}))
    assert isinstance(event, CountedEvent)
    assert isinstance(event.completed_ms, int)
