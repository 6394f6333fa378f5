"""``rules.toml``, the policy as a file (deploy/rules.toml shows all of it), and single thresholds as flags."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from groupreplay.state.conditions.detection import Detector
from groupreplay.state.conditions.registry import DETECTORS, OF_THE_JOB, with_thresholds
from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import (
    DAYS,
    EPHEMERAL,
    GroupRule,
    MovedOffsets,
    Once,
    PlannedWindow,
    Policy,
    Thresholds,
    Weekly,
    merged,
)
from groupreplay.streaming.base.clock import epoch_ms, time_zone
from groupreplay.streaming.base.errors import GroupReplayError, did_you_mean, unusable

log = logging.getLogger(__name__)

#: ``msgspec``'s names of types -> TOML's.
_TOML_TYPES: Final = {"int": "integer", "bool": "boolean", "str": "string", "object": "table"}
_EXAMPLE: Final = "deploy/rules.toml shows every setting"


def _struct(name: str, types: Mapping[str, Any]) -> Any:
    """A table of the file: all its settings may be missing, and it has no others."""
    fields = [(setting, kind | UnsetType, UNSET) for setting, kind in types.items()]
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


#: Everything that has thresholds.
_JUDGES: Final[tuple[Detector | MovedOffsets, ...]] = (*DETECTORS, MovedOffsets())


def _tables(judges: Iterable[Detector | MovedOffsets]) -> dict[str, Any]:
    """``rebalance`` -> a table of ``slow``, ``stuck`` ..., each a table of its thresholds."""
    families: dict[str, dict[str, Any]] = {}
    for judge in judges:
        family, _, word = judge.name.partition(".")
        # The detectors' None is no value in a file: there, such a threshold is left out.
        kinds = judge.thresholds().items()
        types = {name: _COUNT if int in {kind, *get_args(kind)} else _SHARE for name, kind in kinds}
        families.setdefault(family, {})[word] = _struct(judge.name, types)
    return {family: _struct(family, words) for family, words in families.items()}


_COUNT: Final = Annotated[int, Meta(ge=0)]
_SHARE: Final = Annotated[float, Meta(ge=0)]
_GROUP: Final = _struct(
    "group",
    {
        "match": str | list[str],
        "ignore": bool,
        "severity_cap": Literal["info", "warn"],
        "matters": bool,
        "labels": dict[str, str],
        **_tables(judge for judge in _JUDGES if judge.name not in OF_THE_JOB),
    },
)
_WINDOW: Final = _struct(
    "window",
    {
        "match": str | list[str],
        "from": Annotated[datetime, Meta(tz=True)],
        "until": Annotated[datetime, Meta(tz=True)],
        "weekly": str | list[str],
        "zone": str,
        "severity_cap": Literal["info", "warn"],
    },
)
_LISTS: Final = {"group": _GROUP, "window": _WINDOW}
_FILE: Final = _struct(
    "file",
    {"runbook": str, "group": list[_GROUP], "window": list[_WINDOW], **_tables(_JUDGES)},  # type: ignore[valid-type]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesSource:
    """Where the policy comes from: a file, if there is one, and what wins over it for every group.

    ``thresholds`` are pairs such as ``("rebalance.stuck.threshold_ms", "3000")``; ``runbook`` is the address of the
    page that events and reports link to.
    """

    path: Path | None = None
    thresholds: Sequence[tuple[str, str]] = field(default=())
    runbook: str | None = None

    def load(self) -> Policy:
        """The policy as it is now.

        Raises:
            GroupReplayError: the file cannot be read or has a mistake: where it is, and what is allowed there.
        """
        policy = Policy() if self.path is None else parse_rules(_read(self.path), str(self.path))
        thresholds: Thresholds = {}
        for name, text in self.thresholds:
            thresholds = merged(thresholds, _given(name, text))
        if self.runbook is not None:
            policy = replace(policy, runbook=self.runbook)
        of_groups = {name: values for name, values in thresholds.items() if name not in OF_THE_JOB}
        if of_groups:
            policy = replace(policy, groups=(*policy.groups, GroupRule(groups="*", thresholds=of_groups)))
        of_the_job = {name: values for name, values in thresholds.items() if name in OF_THE_JOB}
        return replace(policy, thresholds=merged(policy.thresholds, of_the_job))


class RulesWatch:
    """Reads the file of a source again when it changes. A file with a mistake is refused, and the policy stays.

    ``policy`` is the current policy, ``changes`` how often it changed, ``error`` why the present file is refused.
    The constructor raises what ``RulesSource.load`` raises; no other method does.
    """

    def __init__(self, source: RulesSource) -> None:
        self.changes = 0
        self.error: str | None = None
        self._source = source
        self._seen = self._stamp()
        self._text = self._content()
        self.policy = source.load()

    def changed(self) -> bool:
        """Whether ``policy`` has changed since the last call; the differences are logged.

        The file is read only when its time, its size or its inode has changed.
        """
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen = stamp
        text = self._content()
        if text == self._text:
            return False
        self._text = text
        try:
            policy = self._source.load()
        except GroupReplayError as error:
            self.error = str(error)
            log.warning("the changed rules are refused, the previous ones stay in effect: %s", error)
            return False
        before, self.policy, self.error = self.policy, policy, None
        if policy == before:
            return False
        self.changes += 1
        log.warning("the rules have changed: %s", "; ".join(differences(before, policy)))
        return True

    def _stamp(self) -> tuple[int, int, int] | None:
        """None without a file. Follows links: Kubernetes updates a volume by replacing a link."""
        try:
            status = None if self._source.path is None else self._source.path.stat()
        except OSError:
            return None
        return status and (status.st_mtime_ns, status.st_size, status.st_ino)

    def _content(self) -> str | None:
        try:
            return None if self._source.path is None else _read(self._source.path)
        except GroupReplayError:
            return None


def parse_rules(text: str, where: str) -> Policy:
    """The policy of a file; the built-in rules about groups stay in front of the rules of the file.

    Raises:
        GroupReplayError: as for ``RulesSource.load``.
    """
    try:
        values = msgspec.toml.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise unusable(f"the rules are not TOML: {error}", where, _EXAMPLE) from None
    file = _converted(values, where)
    thresholds = _checked(_thresholds(file), where)
    return Policy(
        thresholds=thresholds,
        groups=(
            *EPHEMERAL,
            *(
                rule
                for number, group in enumerate(file.get("group", []), 1)
                for rule in _group_rules(group, thresholds, f"{where}, [[group]] {number}")
            ),
        ),
        windows=tuple(
            window
            for number, table in enumerate(file.get("window", []), 1)
            for window in _windows(table, f"{where}, [[window]] {number}")
        ),
        runbook=file.get("runbook", Policy().runbook),
    )


def _windows(table: dict[str, Any], where: str) -> list[PlannedWindow]:
    return planned_windows(table, _globs(table.get("match", []), where), where)


def _group_rules(group: dict[str, Any], thresholds: Thresholds, where: str) -> Iterator[GroupRule]:
    """One rule for each glob of a ``[[group]]``."""
    own = _thresholds(group)
    _checked(merged(thresholds, own), where)
    cap = group.get("severity_cap")
    for glob in _globs(group.get("match", []), where):
        yield GroupRule(
            groups=glob,
            ignore=group.get("ignore"),
            severity_cap=None if cap is None else Severity[cap.upper()],
            matters=group.get("matters"),
            labels=group.get("labels", {}),
            thresholds=own,
        )


def _globs(match: str | list[str], where: str) -> list[str]:
    globs = [match] if isinstance(match, str) else match
    if not globs:
        raise unusable("match is missing", where, 'it names the groups: match = "payments-*"')
    for glob in globs:
        if not glob or "[" in glob.replace("[[]", "").rpartition("]")[2]:
            fix = "use *, ?, [abc] or [!abc]; [[] stands for a bracket itself"
            raise unusable(f"match = {glob!r} is not a glob", where, fix)
    return globs


def _given(name: str, text: str) -> Thresholds:
    """The threshold of a ``--rule`` flag."""
    where, words = f"--rule {name}={text}", name.split(".")
    if len(words) != 3:
        fix = "such as rebalance.stuck.threshold_ms"
        raise unusable(f"{name!r} is not the name of a threshold", where, fix)
    family, word, threshold = words
    return _checked(_thresholds(_converted({family: {word: {threshold: text}}}, where, strict=False)), where)


def _converted(values: dict[str, Any], where: str, *, strict: bool = True) -> dict[str, Any]:
    """The values with the right types, without those that are missing."""
    try:
        file = msgspec.convert(values, _FILE, strict=strict)
    except msgspec.ValidationError as error:
        raise _translated(str(error), where) from None
    plain: dict[str, Any] = msgspec.to_builtins(file)
    return plain


def _thresholds(table: dict[str, Any]) -> Thresholds:
    """``{"rebalance.stuck": {"threshold_ms": 3000}}`` from tables within tables."""
    names = [(judge.name, *judge.name.split(".")) for judge in _JUDGES]
    thresholds = {name: table.get(family, {}).get(word, {}) for name, family, word in names}
    return {name: values for name, values in thresholds.items() if values}


def _checked(thresholds: Thresholds, where: str) -> Thresholds:
    try:
        with_thresholds(DETECTORS, thresholds)
    except ValueError as error:
        raise unusable(str(error), where, _EXAMPLE) from None
    return thresholds


def _translated(message: str, where: str) -> GroupReplayError:
    """``msgspec``'s message about a place such as ``$.group[0].rebalance.stuck``, for the author of the file."""
    what, _, path = message.replace("`", "").partition(" - at $")
    kind_name, number, place = re.findall(r"^(?:\.(group|window)\[(\d+)\])?\.?([^\[]*)", path)[0]
    if number:
        where = f"{where}, [[{kind_name}]] {int(number) + 1}"
    _, unknown, name = what.partition("Object contains unknown field ")
    if not unknown:
        what = re.sub(r"\b\w+\b", lambda word: _TOML_TYPES.get(word[0], word[0]), what)
        return unusable(f"{place or kind_name or 'group'}: {what}", where, _EXAMPLE)
    if kind_name == "group" and any(prefix.startswith(f"{name}.") for prefix in OF_THE_JOB):
        return unusable(
            f"{name} is about the job, not about groups", where, f"write [{name}...] above [[group]]"
        )
    kind = _LISTS.get(kind_name, _FILE)
    for word in filter(None, place.split(".")):
        kind = get_args(kind.__annotations__[word])[0]
    fields = kind.__struct_fields__
    full = f"{place}.{name}" if place else name
    fix = f"{did_you_mean(name, fields)}known here: {', '.join(fields)}"
    return unusable(f"unknown setting {full!r}", where, fix)


def differences(before: Policy, after: Policy) -> list[str]:
    """The changes, one line each: ``rebalance.stuck.threshold_ms: as shipped -> 3000``."""
    old, new = dict(_flat(before)), dict(_flat(after))
    lines = [
        f"{name}: {old.get(name, 'as shipped')} -> {new.get(name, 'as shipped')}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return lines or ["the order of the rules about groups"]


def _flat(policy: Policy) -> Iterator[tuple[str, Any]]:
    """Every setting by a unique name."""
    yield "runbook", policy.runbook
    yield from _flat_thresholds("", policy.thresholds)
    for rule in policy.groups:
        for name in ("ignore", "severity_cap", "matters"):
            if (value := getattr(rule, name)) is not None:
                yield f"{rule.groups}: {name}", getattr(value, "name", value)
        for label, text in rule.labels.items():
            yield f"{rule.groups}: labels.{label}", text
        yield from _flat_thresholds(f"{rule.groups}: ", rule.thresholds)
    for window in policy.windows:
        yield f"{window.groups}: window {window.times}", window.severity_cap.name


def _flat_thresholds(before: str, thresholds: Thresholds) -> Iterator[tuple[str, Any]]:
    for condition, changed in thresholds.items():
        yield from ((f"{before}{condition}.{number}", value) for number, value in changed.items())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise unusable(f"cannot read the rules, {error.strerror}", str(path), "check --rules") from None
    except ValueError:
        raise unusable("the rules are not UTF-8", str(path), "save the file as UTF-8") from None


_WEEKLY: Final = re.compile(r"([A-Za-z,-]+) +(\d\d:\d\d)-(\d\d:\d\d)")
_FIX: Final = 'such as weekly = "Sat 02:00-04:00" with zone = "Europe/Berlin", or from and until with dates'


def planned_windows(table: Mapping[str, Any], globs: Sequence[str], where: str) -> list[PlannedWindow]:
    """The windows of one table, one for each glob and each of its times.

    Raises:
        GroupReplayError: it has no time, or one that cannot be.
    """
    cap = Severity[table.get("severity_cap", "info").upper()]
    times = _times(table, where)
    return [PlannedWindow(groups=glob, times=time, severity_cap=cap) for glob in globs for time in times]


def _times(table: Mapping[str, Any], where: str) -> list[Once | Weekly]:
    dates, weekly = {"from", "until"} & {*table}, table.get("weekly", [])
    texts = [weekly] if isinstance(weekly, str) else weekly
    if dates and (texts or "zone" in table):
        raise unusable("from and until have their own zone, and are no weekly window", where, _FIX)
    if dates == {"from", "until"}:
        return [_once(table["from"], table["until"], where)]
    if dates or not texts:
        raise unusable("a window needs both from and until, or weekly", where, _FIX)
    return [_weekly(text, table.get("zone", "UTC"), where) for text in texts]


def _once(begin: str, end: str, where: str) -> Once:
    # msgspec has checked both.
    from_ms, until_ms = (epoch_ms(datetime.fromisoformat(at.replace("Z", "+00:00"))) for at in (begin, end))
    if until_ms <= from_ms:
        raise unusable("until is not later than from", where, _FIX)
    return Once(from_ms=from_ms, until_ms=until_ms)


def _weekly(text: str, zone_name: str, where: str) -> Weekly:
    try:
        zone = time_zone(zone_name)
    except ValueError as error:
        raise unusable(str(error), where, "such as Europe/Berlin or +02:00") from None
    parts = _WEEKLY.fullmatch(text.strip())
    try:
        if parts is None:
            raise ValueError(text)
        begin, end = (time.fromisoformat(part) for part in parts.groups()[1:])
        days = frozenset(day for part in parts[1].split(",") for day in _days(part))
    except ValueError:
        raise unusable(f"weekly = {text!r} cannot be read", where, _FIX) from None
    return Weekly(days=days, begin=begin, end=end, zone=zone.info, zone_name=zone.name)


def _days(text: str) -> list[int]:
    """``Mon-Fri`` or ``Sat``; ``Sat-Mon`` goes over the end of the week."""
    first, dash, last = text.partition("-")
    begin = DAYS.index(first.title())
    length = (DAYS.index(last.title()) - begin) % len(DAYS) if dash else 0
    return [(begin + number) % len(DAYS) for number in range(length + 1)]
