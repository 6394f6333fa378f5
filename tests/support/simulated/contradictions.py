"""Compares all renderings of one fact: what two of them tell differently, as sentences.

The events are the measure. What is expected of the others is counted here anew, in the plainest way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from groupreplay.app.inspection.history import COMPACTED_AWAY
from groupreplay.state.snapshot.partitions import from_ranges
from groupreplay.timeline.document import StateBar, Tenure
from support.simulated.renderings import GroupRenderings, Json

_NUMBERS: Final = {9: "INFO", 13: "WARN", 17: "ERROR"}
_WORST: Final = ("ok", "info", "warn", "error")
_LOST: Final = ("offsets.expired", "offsets.deleted")
_SLOW_SYNC_MS: Final = 3_000
_MINUTE_MS: Final = 60_000


def _name(event: Json) -> str:
    return str(event["type"]).removeprefix("groupreplay.").rpartition(".")[0]


def contradictions(group: GroupRenderings) -> list[str]:
    """Everything that is told in two ways, each with the scenario and the group."""
    return [
        f"{group.scenario} {group.group_id}, {check.__name__.strip('_')}: {text}"
        for check in CHECKS
        for text in check(group)
    ]


def _differs(what: str, *told: tuple[str, object]) -> Iterator[str]:
    """One sentence where not all tell the same."""
    (_, first), *others = told
    if any(one != first for _, one in others):
        yield f"{what}: " + "; ".join(f"{name} {one}" for name, one in told)


def _severities(group: GroupRenderings) -> Iterator[str]:
    """The severity of each event in the report's table and in the history of describe is that of its envelope."""
    events = Counter((_name(one), one["at_ms"], one["severitytext"]) for one in group.events)
    rows = Counter((row.name, row.time_ms, row.severity) for row in group.report.events)
    yield from _differs("severities", ("events", events - rows), ("report", rows - events))
    told = {(row["event"], row["severity"]) for row in group.history if row["severity"]}
    known = {(name, severity) for name, _, severity in events}
    yield from _differs("severities of describe", ("describe", told - known), ("nothing", set()))
    for change in group.report.offset_changes:
        severity = next(iter({s for n, at, s in events if (n, at) == (change.name, change.at_ms)}), None)
        yield from _differs(f"{change.name} {change.at_ms}", ("event", severity), ("mark", change.severity))


def _trouble(group: GroupRenderings) -> list[str]:
    """The severities of events that tell of something wrong."""
    return [
        one["severitytext"]
        for one in group.events
        if one["severitytext"] != "INFO"
        or "condition_id" in one["data"]
        or _name(one) in (*_LOST, "offsets.reset")
        or (_name(one) == "rebalance.completed" and (one["data"]["sync_ms"] or 0) >= _SLOW_SYNC_MS)
        or (_name(one) == "rebalance.completed" and _failed(one["data"]))
    ]


def _failed(data: Json) -> bool:
    """Three generations or more of a classic group were begun and never completed."""
    return data["group_type"] == "classic" and (data["skipped_generations"] or 0) >= 3


def _tones(group: GroupRenderings) -> Iterator[str]:
    """The worst of the events, the headline of the verdict, the dot of the overview and the strip of the server."""
    worst = max(map(_WORST.index, (_tone(one) for one in _trouble(group))), default=0)
    headline = group.report.verdict[0].tone
    green = any(one.tone == "ok" for one in group.report.verdict)
    spans = [_WORST.index(_tone(severity)) for _, _, severity, _, _ in group.served["spans"]]
    drawn = [_WORST.index(_tone(span.severity)) for span in group.strip.spans]
    yield from _differs(
        "tone",
        ("events", _WORST[worst]),
        ("dot", group.strip.tone),
        ("strip", _WORST[max(drawn, default=0)]),
        ("served strip", _WORST[max(spans, default=0)]),
    )
    if worst:
        yield from _differs("headline", ("events", _WORST[worst]), ("verdict", headline))
    yield from _differs("nothing is wrong", ("events", not worst), ("verdict", green))


def _tone(severity: str) -> str:
    return {"INFO": "info", "WARN": "warn", "ERROR": "error"}[severity]


def _conditions(group: GroupRenderings) -> Iterator[str]:
    """Begin, end and severity of each condition: events, bars, strips."""
    by_id: dict[str, list[Json]] = {}
    for one in group.events:
        if "condition_id" in one["data"]:
            by_id.setdefault(one["data"]["condition_id"], []).append(one)
    expected = Counter[tuple[str, int, int | None, str]]()
    for told in by_id.values():
        severity = max(one["severitynumber"] for one in told)
        since = min(told[0]["data"]["since_ms"], told[0]["at_ms"])
        until = told[-1]["at_ms"] if told[-1]["data"]["status"] == "resolved" else None
        expected[(_name(told[0]), since, until, _NUMBERS[severity])] += 1
    bars = Counter((one.name, one.since_ms, one.until_ms, one.severity) for one in group.report.conditions)
    yield from _differs("conditions", ("events", expected), ("bars", bars))
    names = Counter(name for name, *_ in expected.elements())
    yield from _differs(
        "numbers of conditions", ("events", names), ("strip", Counter(group.strip.conditions))
    )
    ends = Counter((name, until) for name, _, until, _ in expected.elements() if until is not None)
    served = Counter(
        (name, end) for _, end, _, name, is_open in group.served["spans"] if name in names and not is_open
    )
    yield from _differs("ends of conditions", ("events", ends), ("served strip", served))


def _losses(group: GroupRenderings) -> Iterator[str]:
    """How many partitions lost their offsets, and how often."""
    for name, words in (("offsets.expired", "expired"), ("offsets.deleted", "were deleted")):
        data = group.data(name)
        places = {(one["topic"], one["partition"]) for each in data for one in each["partitions"]}
        marks = {(one.topic, one.partition) for one in group.report.offset_changes if one.name == name}
        sentences = " ".join(one.text for one in group.report.verdict)
        told = re.search(rf"Committed offsets of (\d+) partitions? {words}", sentences)
        yield from _differs(
            name, ("events", len(places)), ("marks", len(marks)), ("verdict", int(told[1]) if told else 0)
        )
        for each in data:
            yield from _differs(
                f"{name} at {each['at_ms']}",
                ("count", each["partition_count"]),
                ("partitions", len(each["partitions"])),
            )
        for row in group.report.events:
            counts = [each["partition_count"] for each in data if each["at_ms"] == row.time_ms]
            if row.name == name and not any(row.text.startswith(f"{count} partition") for count in counts):
                yield f"the text of {name} at {row.time_ms} has another count than {counts}: {row.text}"
    lost = sum(len(group.data(name)) for name in _LOST)
    yield from _differs("losses", ("events", lost), ("strip", group.strip.losses))


def _durations(group: GroupRenderings) -> Iterator[str]:
    """How long each rebalance took: lane, flag, event, history of describe, verdict."""
    data = group.data("rebalance.completed")
    flags = {(flag.at_ms, flag.generation): flag for flag in group.report.generations}
    served = sum(count for _, count in group.served["rebalances"])
    yield from _differs(
        "rebalances",
        ("events", len(data)),
        ("flags", len(group.report.generations)),
        ("strip", group.strip.rebalance_count),
        ("served strip", served),
    )
    moved = sum(flag.moved or 0 for flag in group.report.generations)
    yield from _differs("moved", ("flags", moved), ("strip", group.strip.moved))
    verdict = " ".join(one.text for one in group.report.verdict)
    for one in data:
        flag = flags.get((one["at_ms"], one["generation"]))
        if flag is None:
            yield f"generation {one['generation']} has no flag"
            continue
        rows = [
            row.text
            for row in group.report.events
            if (row.name, row.time_ms) == ("rebalance.completed", one["at_ms"])
        ]
        whys = [row["why"] for row in group.history if (row["event"], row["generation"]) == _key(one)]
        for text in (flag.took,):
            if text and not (any(text in row for row in rows) and any(text in str(why) for why in whys)):
                yield f"generation {one['generation']} {text}: {rows}, {whys}"
        if (one["sync_ms"] or 0) >= _SLOW_SYNC_MS:
            leader = next(m for m in one["members"] if m["member_id"] == one["leader"])
            name = leader["instance_id"] or leader["client_id"]
            if not all(name in text for text in (*rows[:1], verdict, str(flag.slow_leader))):
                yield f"the slow leader {name} is not named: {rows}, {verdict}"
        yield from _lane(group, one)


def _key(one: Json) -> tuple[str, int]:
    return "rebalance.completed", one["generation"]


def _lane(group: GroupRenderings, one: Json) -> Iterator[str]:
    """The bars of a classic rebalance against the event's bounds."""
    flag = next(flag for flag in group.report.generations if flag.at_ms == one["at_ms"])
    bars = [bar for bar in group.report.states if bar.until_ms == one["at_ms"]]
    completing = next((bar for bar in bars if bar.state == "CompletingRebalance"), None)
    if completing is None or one["sync_ms"] is None:
        return
    drawn_ms = one["at_ms"] - completing.since_ms
    yield from _differs(
        f"sync of generation {one['generation']}", ("event", one["sync_ms"]), ("lane", drawn_ms)
    )
    preparing = next((bar for bar in group.report.states if _leads_to(bar, completing)), None)
    if preparing is None or flag.most_ms is None:
        return
    least_ms, most_ms = one["at_ms"] - preparing.since_ms, None
    if preparing.earliest_ms is not None:
        most_ms = one["at_ms"] - preparing.earliest_ms
    if flag.most_ms < least_ms or (most_ms is not None and most_ms < flag.least_ms):
        yield (
            f"generation {one['generation']} took {flag.least_ms} to {flag.most_ms} ms by its event, "
            f"{least_ms} to {most_ms} by its lane"
        )


def _leads_to(bar: StateBar, completing: StateBar) -> bool:
    return bar.state == "PreparingRebalance" and bar.until_ms == completing.since_ms


def _states(group: GroupRenderings) -> Iterator[str]:
    """The states of the report, of describe --states, and the last one of describe."""
    lane = [(bar.state, bar.since_ms, bar.earliest_ms, bar.generation) for bar in group.report.states]
    table = [
        (row["state"], row["since_ms"], row["earliest_ms"], row["generation"])
        for row in group.states
        if row["until_ms"] is None or row["until_ms"] >= group.report.since_ms
    ]
    yield from _differs("states", ("lane", lane), ("describe --states", table))
    if group.described is not None and lane:
        yield from _differs("state at the end", ("lane", lane[-1][0]), ("describe", group.described["state"]))
        holding = {
            one.member_id for slot in group.report.slots for one in slot.tenures[-1:] if one.until_ms is None
        }
        members = {one["member_id"] for one in group.described["members"]}
        yield from _differs("members at the end", ("lanes", holding), ("describe", members))


def _gaps(group: GroupRenderings) -> Iterator[str]:
    """What compaction has removed: holes of the report, rows of describe, the remark."""
    holes = [hole.text for hole in group.report.holes]
    rows = [row["why"] for row in group.history if row["event"] == COMPACTED_AWAY]
    # A group without events has a hole in describe alone: the report has nothing to draw before it.
    if group.events:
        yield from _differs("gaps", ("report", holes), ("describe", rows))
    remarked = any(one.kind == "history" for one in group.report.remarks)
    yield from _differs("a remark about gaps", ("holes", bool(holes)), ("remark", remarked))
    partial = group.report.basis.history == "partial"
    if holes and not partial:
        yield f"the history is full, and has the holes {holes}"


def _whole(group: GroupRenderings) -> Iterator[str]:
    """Nothing is missing from a log that is whole, whatever the brokers removed."""
    report = group.report
    # Records of aborted transactions have offsets, and no reader of committed records gets them.
    gaps = report.commit_gaps if group.scenario != "transactions" else ()
    if group.is_whole and (report.basis.history != "full" or report.holes or gaps):
        yield f"the log is whole, and the report says {report.basis.history}: {report.remarks}"
    remarked = any(one.kind == "removed_commits" for one in report.remarks)
    yield from _differs("gaps of commits", ("lane", bool(report.commit_gaps)), ("remark", remarked))


def _deadlines(group: GroupRenderings) -> Iterator[str]:
    """The offsets that expire, in the report and in describe."""
    offsets = () if group.described is None else group.described["offsets"]
    expiring = Counter(one["topic"] for one in offsets if one["expires_at_ms"] is not None)
    drawn = Counter[str]()
    for one in group.report.deadlines:
        drawn[one.topic] += len(from_ranges(one.partitions))
    yield from _differs("offsets that expire", ("describe", expiring), ("report", drawn))


def _ends(group: GroupRenderings) -> Iterator[str]:
    """Who left and was replaced: bars of members, events and their counts."""
    tenures = [(one, after) for slot in group.report.slots for one, after in _pairs(slot.tenures)]
    left = Counter((one["member_id"], one["reason"]) for one in group.data("member.left"))
    bars = Counter((one.member_id, one.reason) for one, _ in tenures if one.reason is not None)
    yield from _differs("members that left", ("events", bars - left), ("bars", Counter[object]()))
    if group.report.basis.history == "full":
        yield from _differs("members that left", ("events", left), ("bars", bars))
    for one, after in tenures:
        if one.until_ms is None or after is None or after.since_ms != one.until_ms:
            continue
        # Between single records that a cleaner has left, a bar may change where no event can be told.
        if one.event is None and not group.is_cleaned:
            yield f"the diamond of {one.member_id} at {one.until_ms} belongs to no event"
    repeats = sum(row.repeats for row in group.report.events)
    diamonds = sum(one.repeats for one, _ in tenures)
    yield from _differs("repeated replacements", ("rows", repeats), ("diamonds", diamonds))


def _lags(group: GroupRenderings) -> Iterator[str]:
    """How far the group is behind, and of how many partitions that is known."""
    if group.lags:
        yield from _differs("lag", *group.lags.items())


def _pairs(items: tuple[Tenure, ...]) -> list[tuple[Tenure, Tenure | None]]:
    return list(zip(items, (*items[1:], None), strict=True))


def _blames(group: GroupRenderings) -> Iterator[str]:
    """Members that the picture and the verdict blame are named in the events of the condition."""
    for slot in group.report.slots:
        for blame in slot.blames:
            bar = group.report.conditions[blame.condition]
            named = {
                text
                for one in group.events
                if one["data"].get("condition_id") == bar.condition_id
                for text in _named(one["data"])
            }
            if not named & {slot.instance_id, slot.client_id, *(one.member_id for one in slot.tenures)}:
                yield f"{bar.name} blames {slot.name}, which its events do not name"


def _named(data: Json) -> Iterator[str]:
    for member in (data, *(data.get("blockers") or ()), *(data.get("suspects") or ())):
        yield from (member[field] for field in ("member_id", "instance_id", "client_id") if member.get(field))


CHECKS: Final[tuple[Callable[[GroupRenderings], Iterator[str]], ...]] = (
    *(_severities, _tones, _conditions, _losses, _durations),
    *(_states, _gaps, _whole, _deadlines, _ends, _blames, _lags),
)
