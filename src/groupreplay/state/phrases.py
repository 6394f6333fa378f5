"""Text for people: characters made safe to show, the phrases that several events share, how long a rebalance took.

Group ids, hosts and metadata are written by strangers: every text that came from a record passes ``safe_text`` here.
``Data`` is the ``data`` of an event, parsed from JSON; it may come from another release, so every field may be missing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Final, TypeVar

#: Controls, format characters (bidi overrides, zero width), surrogates, private use, line and paragraph
#: separators, unassigned code points: none of them may reach a terminal, a label or a log line as it is.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
LONGEST_TEXT = 256


def is_safe(text: str) -> bool:
    """Whether the text has no unsafe character; what ``safe_text`` returns has none."""
    return text.isprintable() or not any(unicodedata.category(char) in _UNSAFE for char in text)


def safe_text(text: str, limit: int | None = LONGEST_TEXT) -> str:
    r"""The text with unsafe characters written as ``\u{1b}``, cut at ``limit`` characters with an ellipsis.

    A backslash is doubled only in front of ``u{``, so that the escape cannot be forged.
    """
    if text.isascii() and text.isprintable() and "\\u{" not in text:
        shown = text
    else:
        shown = "".join(
            f"\\u{{{ord(char):x}}}" if unicodedata.category(char) in _UNSAFE else char
            for char in text.replace("\\u{", "\\\\u{")
        )
    if limit is not None and len(shown) > limit:
        return shown[: limit - 1] + "…"
    return shown


Data = Mapping[str, Any]

#: How many members, partitions or topics a line names.
NAMES_SHOWN: Final = 3
_Thing = TypeVar("_Thing")
#: From so many hours on a duration is in days.
_HOURS: Final = 48


def milliseconds(value: int | None) -> str:
    """A duration in the unit a person would choose: 12 ms, 3.2 s, 4 min 10 s, 7 d 3 h; ``?`` when it is not known.

    ``lasted`` of ``format.js`` writes the same: halves are rounded up, and no minute has 60 s.
    """
    if value is None:
        return "?"
    if value < 1_000:
        return f"{value} ms"
    tenths = (value + 50) // 100
    if tenths < 600:
        return f"{tenths // 10}.{tenths % 10} s"
    minutes, seconds = divmod((value + 500) // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < _HOURS else f"{hours // 24} d {hours % 24} h"


def data_size(count: int) -> str:
    """Bytes in the unit a person would choose: ``512 bytes``, ``43 kB``, ``1,204.5 MB``."""
    if count < 1_000:
        return counted(count, "byte")
    kilobytes = (count + 500) // 1_000
    return f"{kilobytes} kB" if kilobytes < 1_000 else f"{count / 1e6:,.1f} MB"


def interval(least_ms: int | None, most_ms: int) -> str:
    """A duration of which the bounds are known: ``2.0 s .. 12.0 s``, ``at most 3.0 s``."""
    least, most = milliseconds(least_ms), milliseconds(most_ms)
    if least == most:
        return most
    return f"{least} .. {most}" if least_ms else f"at most {most}"


def counted(count: int, noun: str) -> str:
    """``1 member``, ``2 members``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def never_completed(generations: int) -> str:
    """``2 generations never completed``: they were begun, and no record has them."""
    return f"{counted(generations, 'generation')} never completed"


def counted_verb(count: int, noun: str, singular: str, plural: str) -> str:
    """``1 event has``, ``2 events have``."""
    return f"{counted(count, noun)} {singular if count == 1 else plural}"


def first_of(
    things: Sequence[_Thing],
    text_of: Callable[[_Thing], str],
    most: int = NAMES_SHOWN,
    separator: str = ", ",
) -> str:
    """The texts of the first ones, and how many more there are: ``a, b, c and 2 more``."""
    more = f" and {len(things) - most} more" if len(things) > most else ""
    return separator.join(map(text_of, things[:most])) + more


def spaced(data: Data, field: str) -> str:
    """A value such as ``not_joined`` as words."""
    return safe_text(str(data.get(field))).replace("_", " ")


def member(data: Data) -> str:
    """The member as a person knows it: its instance id, else client id and host."""
    if data.get("instance_id"):
        return f"static member {safe_text(str(data['instance_id']))}"
    host = str(data.get("client_host") or "?").removeprefix("/")
    return f"{safe_text(str(data.get('client_id') or '?'))} on {safe_text(host)}"


def at_place(text: object) -> str:
    """A place, ``app-a@/10.0.0.1``, in the words for a member: ``app-a on 10.0.0.1``; another text as it is."""
    client_id, at, host = str(text).rpartition("@")
    return safe_text(f"{client_id or '?'} on {host.removeprefix('/')}" if at else host)


def subject(data: Data) -> str:
    """The one member, instance or partition that an event is about; empty when it is the whole group."""
    if data.get("member_id") is not None:
        return member(data)
    if data.get("instance_id") is not None:
        return f"instance {safe_text(str(data['instance_id']))}"
    if data.get("topic") is not None:
        return f"{safe_text(str(data['topic']))}-{data.get('partition')}"
    return ""


def from_to(least: str, most: str) -> str:
    """``3 to 5``; one text where both are equal."""
    return least if least == most else f"{least} to {most}"


def partitions(ranges_by_topic: Mapping[str, str] | None) -> str:
    """The partitions of the first topics, as ranges."""
    named = [
        f"{safe_text(str(topic))} {safe_text(str(ranges))}"
        for topic, ranges in (ranges_by_topic or {}).items()
    ]
    more = f" and {counted(len(named) - NAMES_SHOWN, 'topic')} more" if len(named) > NAMES_SHOWN else ""
    return ", ".join(named[:NAMES_SHOWN]) + more


def silence(data: Data) -> str:
    """How long there was no commit, and the group's usual gap."""
    usual = milliseconds(data.get("usual_gap_ms"))
    return f"no commit for {milliseconds(data.get('silent_ms'))}, usually one every {usual}"


def lag(data: Data) -> str:
    """How many records are not committed, where it is known."""
    return "" if data.get("lag") is None else f", {counted(data['lag'], 'record')} behind"


def assumed(data: Data) -> str:
    """What the event rests on without a proof: ``, assumed: retention 7 d 0 h``; empty when nothing was assumed."""
    numbers = data.get("assumed") or {}
    named = [
        f"{safe_text(str(name)).removesuffix('_ms').replace('_', ' ')} {milliseconds(value)}"
        for name, value in numbers.items()
    ]
    if data.get("assumed_release"):
        named.append(f"rules of Kafka {safe_text(str(data['assumed_release']))}")
    return f", assumed: {', '.join(named)}" if named else ""


#: How a member ended, by the reason of ``member.left``.
_ENDS: Final = {
    "left": "left",
    "poll_timeout": "left: its client gave up, because nobody polled",
    "rebalance_timeout": "removed: it did not rejoin, or did not revoke its partitions, in time",
    "session_timeout": "removed: its session expired",
    "group_emptied": "left with the last members",
    "unknown": "left or was removed; the log does not show which",
}


def member_end(reason: str | None) -> str:
    """``removed: its session expired``; those of later releases, and none, are a member that left."""
    return _ENDS.get(reason or "", _ENDS["left"])


#: Since when an offset is kept, by the base of the rule.
_BASES: Final = {
    "commit": "counted from the commit",
    "emptied": "counted from when the group became Empty",
    "own": "by the commit's own expiry",
}


def expiry(data: Data) -> str:
    """The broker's rule: ``; rule: classic, Empty, counted from when the group became Empty``, and what was assumed."""
    rule = f"; rule: {safe_text(str(data['rule']))}" if data.get("rule") else ""
    if rule and data.get("base") in _BASES:
        rule += f", {_BASES[str(data['base'])]}"
    unclear = "; only the coordinator knows whether it protects them" if data.get("unclear") else ""
    return f"{rule}{unclear}{assumed(data)}"


def clock_time(moment: str) -> str:
    """The hh:mm:ss.mmm of an RFC 3339 time in UTC."""
    return safe_text(moment.partition("T")[2].removesuffix("Z")[:12].removesuffix("+00:00") or moment)


@lru_cache(maxsize=1_000)
def timestamp(at_ms: int) -> str:
    """RFC 3339 with milliseconds, in UTC. Moments that no calendar can write become the epoch."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, timezone.utc)
    return f"{moment.isoformat(timespec='seconds')[:19]}.{at_ms % 1000:03d}Z"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def timestamp_ms(text: object) -> int | None:
    """Milliseconds since 1970 of an RFC 3339 time, cut to whole ones; None for anything else, also without its zone."""
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    seconds, fraction, zone = match.groups()
    try:
        # Python 3.10 does not know the letter.
        moment = datetime.fromisoformat(seconds + ("+00:00" if zone == "Z" else zone))
    except ValueError:  # a 31st of February
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "")[:3].ljust(3, "0"))


#: From here on the leader is named: a member notices a rebalance within ``heartbeat.interval.ms`` (3 s), and what is
#: longer than that is the leader's own time.
SLOW_SYNC_MS: Final = 3_000
#: Shorter least lengths, and silences, say nothing.
_LEAST_MS: Final = 1_000
#: A longer bound by the record before is mostly the time for which the group was Stable: it has the generation of that.
_LONG_BOUND_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceLength:
    """Bounds of the whole rebalance (``most_ms`` None: no upper one), and its sync phase; None: it is not known.

    ``slow_leader`` is the member whose assignment the group waited for, where that took ``SLOW_SYNC_MS`` or more.
    ``notes`` say what an upper bound consists of that is no answer of the brokers.
    """

    least_ms: int
    most_ms: int | None
    sync_ms: int | None
    slow_leader: Mapping[str, Any] | None
    notes: Sequence[str] = ()

    def text(self) -> str:
        """The length in words, empty where nothing is known.

        ``took 8.0 s``, ``took 2.0 s .. 12.0 s``, ``took at least 8.0 s``, ``took at most 9 min (since generation 2)``.
        """
        if self.most_ms is None:
            return f"took at least {milliseconds(self.least_ms)}" if self.least_ms >= _LEAST_MS else ""
        least_ms = self.least_ms if self.least_ms == self.most_ms or self.least_ms >= _LEAST_MS else 0
        if milliseconds(least_ms) == milliseconds(self.most_ms):
            return f"took {milliseconds(self.most_ms)}"
        notes = f" ({', '.join(self.notes)})" if self.notes else ""
        return f"took {interval(least_ms, self.most_ms)}{notes}"

    def leader_text(self) -> str:
        """``waited 8.0 s for the assignment of the leader, app-a on 10.0.0.1``; empty for a leader that was fast."""
        if self.slow_leader is None:
            return ""
        name = member(self.slow_leader)
        return f"waited {milliseconds(self.sync_ms)} for the assignment of the leader, {name}"


def rebalance_length(data: Data) -> RebalanceLength:
    """The length by the ``data`` of a ``rebalance.completed`` of any release."""
    exact_ms, sync_ms = _whole(data, "duration_ms"), _whole(data, "sync_ms")
    leader = _leader(data) if sync_ms is not None and sync_ms >= SLOW_SYNC_MS else None
    if exact_ms is not None:
        return RebalanceLength(least_ms=exact_ms, most_ms=exact_ms, sync_ms=sync_ms, slow_leader=leader)
    bounds = [_whole(data, name) for name in ("join_ms_max", "duration_upper_bound_ms")]
    join_ms = min((bound for bound in bounds if bound is not None), default=None)
    least_ms = min(_whole(data, "join_ms_min") or 0, join_ms or 0) + (sync_ms or 0)
    return RebalanceLength(
        least_ms=least_ms,
        most_ms=None if join_ms is None else join_ms + (sync_ms or 0),
        sync_ms=sync_ms,
        slow_leader=leader,
        notes=tuple(_bound_notes(data)),
    )


def _bound_notes(data: Data) -> Iterator[str]:
    """Of a bound by the record before: that generation, and how much of the time was without a commit."""
    bound_ms = _whole(data, "duration_upper_bound_ms")
    if bound_ms is None or _whole(data, "join_ms_max") is not None:
        return
    previous, silent_ms = _whole(data, "previous_generation"), _whole(data, "silent_ms")
    if previous is not None and bound_ms >= _LONG_BOUND_MS:
        yield f"since generation {previous}"
    # Less than a second says nothing: few groups commit more often.
    if silent_ms is not None and silent_ms >= _LEAST_MS:
        yield f"no commits for {milliseconds(silent_ms)} of it"


def logged(data: Data) -> str:
    """`` (the coordinator logged “removing member … on heartbeat expiration”)`` or empty: what began a rebalance."""
    reasons = data.get("logged")
    first = reasons[0] if isinstance(reasons, list | tuple) and reasons else None
    return f" (the coordinator logged “{safe_text(first)}”)" if isinstance(first, str) else ""


def requested_by(data: Data) -> str:
    """``, requested by User:alice at 10.0.0.5`` or empty; several are joined by ``or``."""
    senders = data.get("requested_by")
    named = [
        f"{safe_text(str(sender.get('principal')))} at {safe_text(str(sender.get('client_host')))}"
        for sender in (senders if isinstance(senders, list | tuple) else ())
        if isinstance(sender, Mapping)
    ]
    return f", requested by {' or '.join(named)}" if named else ""


def _leader(data: Data) -> Mapping[str, Any] | None:
    """The leader as a member of the event; None where the event does not have it."""
    members = data.get("members")
    listed = members if isinstance(members, list | tuple) else ()
    return next(
        (
            member
            for member in listed
            if isinstance(member, Mapping) and member.get("member_id") == data.get("leader")
        ),
        None,
    )


def _whole(data: Data, field: str) -> int | None:
    value = data.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
