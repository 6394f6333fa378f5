"""``rules.toml``: the policy of groups as a person writes it, and single numbers as flags give them.

Knows the layout of the file (deploy/rules.toml shows all of it) and says what is wrong in it; must not know
what a number means, nor how rules apply to a group.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from groupreplay.state.events.event import Severity
from groupreplay.state.job.job_watch import JOB_RULES
from groupreplay.state.policy.rules import (
    DETECTORS,
    EPHEMERAL,
    GroupRule,
    Numbered,
    Numbers,
    Policy,
    numbers_of,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

log = logging.getLogger(__name__)

_RULES: Final[Sequence[Numbered]] = (*DETECTORS, *JOB_RULES)
#: Condition -> number -> its type.
_NUMBERS: Final = {one.NAME: numbers_of(one) for one in _RULES}
#: Those of them that are about no group.
_OF_THE_JOB: Final = frozenset(one.NAME for one in JOB_RULES)
_FAMILIES: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in _NUMBERS))
_CAPS: Final = {"info": Severity.INFO, "warn": Severity.WARN}
#: What a ``[[group]]`` may say beside numbers -> its type.
_GROUP_SETTINGS: Final[Mapping[str, Any]] = {
    "match": str | list[str],
    "ignore": bool,
    "severity_cap": str,
    "matters": bool,
    "labels": dict[str, str],
}
#: Types as the author of a TOML file calls them.
_TYPE_NAMES: Final[Mapping[Any, str]] = {
    int: "a whole number",
    int | None: "a whole number",
    float: "a number",
    float | None: "a number",
    bool: "true or false",
    str: "a text in quotes",
    str | list[str]: 'a glob in quotes, or a list of them: ["payments-*", "ledger"]',
    dict[str, str]: 'texts by name: { team = "payments" }',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesSource:
    """Where the policy comes from: a file, if there is one, and numbers that win over it for every group.

    ``numbers`` are pairs such as ``("rebalance.stuck.threshold_ms", "3000")``.
    """

    path: Path | None = None
    numbers: Sequence[tuple[str, str]] = field(default=())

    def load(self) -> Policy:
        """The policy as it is written now.

        Raises:
            GroupReplayError: the file cannot be read or says something that is no rule; which, and what
                could stand there instead.
        """
        policy = Policy() if self.path is None else parse_rules(_read(self.path), str(self.path))
        overriding = _overriding(self.numbers)
        of_groups = {name: overriding[name] for name in overriding if name not in _OF_THE_JOB}
        if of_groups:
            policy = replace(policy, groups=(*policy.groups, GroupRule(groups="*", numbers=of_groups)))
        of_the_job = {
            name: {**policy.numbers.get(name, {}), **overriding[name]}
            for name in overriding
            if name in _OF_THE_JOB
        }
        return replace(policy, numbers={**policy.numbers, **of_the_job})


class RulesWatch:
    """Says when the file of a source was changed. Refuses what cannot be used and keeps what was good.

    ``policy`` is what holds now, ``changes`` how often that became another one, ``error`` why the file as it
    is now is refused. Raises as ``RulesSource.load`` when it is made, and never again.
    """

    def __init__(self, source: RulesSource) -> None:
        self.changes = 0
        self.error: str | None = None
        self._source = source
        self._seen = self._stamp()
        self._text = self._content()
        self.policy = source.load()

    def changed(self) -> bool:
        """Whether ``policy`` has become another one since the last call; what differs is logged.

        Looks into the file only when its time or size is another.
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
            log.warning("the changed rules are refused, those before still hold: %s", error)
            return False
        before, self.policy, self.error = self.policy, policy, None
        if policy == before:
            return False
        self.changes += 1
        log.warning("the rules have changed: %s", "; ".join(differences(before, policy)))
        return True

    def _stamp(self) -> tuple[int, int, int] | None:
        """None without a file. Follows links: a Kubernetes volume is renewed by turning one."""
        try:
            found = None if self._source.path is None else self._source.path.stat()
        except OSError:
            return None
        return found and (found.st_mtime_ns, found.st_size, found.st_ino)

    def _content(self) -> str | None:
        try:
            return None if self._source.path is None else _read(self._source.path)
        except GroupReplayError:
            return None


def parse_rules(text: str, where: str) -> Policy:
    """The policy that a file says; the shipped rules about groups stay in front of those of the file.

    Raises:
        GroupReplayError: as for ``RulesSource.load``.
    """
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:
        raise _wrong(f"the rules are not TOML: {error}", where, "deploy/rules.toml is an example") from None
    groups = values.pop("group", [])
    runbook = _typed(values.pop("runbook", Policy().runbook), str, "runbook", where)
    if not isinstance(groups, list) or not all(isinstance(one, dict) for one in groups):
        raise _wrong(
            "group is no list of tables", where, 'write [[group]], and below it match = "payments-*"'
        )
    return Policy(
        numbers=_numbers(values, where, ("runbook", "group")),
        groups=(*EPHEMERAL, *(rule for at, one in enumerate(groups, 1) for rule in _group(one, at, where))),
        runbook=runbook,
    )


def _group(table: Mapping[str, Any], at: int, where: str) -> Iterator[GroupRule]:
    """One rule for each glob of a ``[[group]]``."""
    where = f"{where}, [[group]] {at}"
    given = {
        name: _typed(value, _GROUP_SETTINGS[name], name, where)
        for name, value in table.items()
        if name in _GROUP_SETTINGS
    }
    numbers = _numbers(
        {name: value for name, value in table.items() if name not in given}, where, _GROUP_SETTINGS
    )
    for name in numbers:
        if name in _OF_THE_JOB:
            raise _wrong(
                f"{name} is about the job, not about groups", where, f"write [{name}] above all [[group]]"
            )
    cap = given.get("severity_cap")
    if cap is not None and cap not in _CAPS:
        raise _wrong(f"severity_cap = {cap!r} is no severity", where, f"use {_either(_CAPS)}")
    for glob in _globs(given.get("match"), where):
        yield GroupRule(
            groups=glob,
            ignore=given.get("ignore"),
            severity_cap=None if cap is None else _CAPS[cap],
            matters=given.get("matters"),
            labels=given.get("labels", {}),
            numbers=numbers,
        )


def _globs(match: str | list[str] | None, where: str) -> list[str]:
    globs = [match] if isinstance(match, str) else match or []
    if not globs:
        raise _wrong("match is missing", where, 'say which groups: match = "payments-*"')
    for glob in globs:
        if not glob or "[" in glob.replace("[[]", "").rpartition("]")[2]:
            fix = "write *, ?, [abc] or [!abc]; [[] stands for a bracket itself"
            raise _wrong(f"match = {glob!r} is no glob", where, fix)
    return globs


def _numbers(tables: Mapping[str, Any], where: str, beside: Sequence[str] | Mapping[str, Any]) -> Numbers:
    """``{"rebalance.stuck": {"threshold_ms": 3000}}`` from tables within tables."""
    found: dict[str, dict[str, Any]] = {}
    for family, conditions in tables.items():
        if family not in _FAMILIES:
            fix = f"known here: {', '.join([*beside, *_FAMILIES])}"
            raise _wrong(f"unknown setting {family!r}", where, fix)
        for condition, numbers in _table(conditions, family, where).items():
            name = f"{family}.{condition}"
            types = _types(name, where)
            for number, value in _table(numbers, name, where).items():
                found.setdefault(name, {})[number] = _number(name, number, value, types, where, strict=True)
    return found


def _table(value: Any, name: str, where: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise _wrong(
        f"{name} is no table", where, f"numbers stand in it: [{name}] or {name}.threshold_ms = 60000"
    )


def _types(condition: str, where: str) -> Mapping[str, Any]:
    if condition not in _NUMBERS:
        fix = f"conditions with numbers: {', '.join(_NUMBERS)}"
        raise _wrong(f"unknown condition {condition!r}", where, fix)
    return _NUMBERS[condition]


def _number(
    condition: str, number: str, value: Any, types: Mapping[str, Any], where: str, *, strict: bool
) -> Any:
    if number not in types:
        fix = f"its numbers: {', '.join(types)}"
        raise _wrong(f"{condition} has no number {number!r}", where, fix)
    name = f"{condition}.{number}"
    typed = _typed(value, types[number], name, where, strict=strict)
    if typed is not None and typed < 0:
        raise _wrong(f"{name} = {value} is negative", where, "use zero or more")
    return typed


def _typed(value: Any, kind: Any, name: str, where: str, *, strict: bool = True) -> Any:
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError:
        raise _wrong(f"{name} = {value!r} cannot be", where, f"it takes {_TYPE_NAMES[kind]}") from None


def _overriding(numbers: Sequence[tuple[str, str]]) -> Numbers:
    found: dict[str, dict[str, Any]] = {}
    for name, text in numbers:
        condition, _, number = name.rpartition(".")
        where = f"--rule {name}={text}"
        types = _types(condition or name, where)
        value = _number(condition, number, text, types, where, strict=False)
        found.setdefault(condition, {})[number] = value
    return found


def differences(before: Policy, after: Policy) -> list[str]:
    """What changed, one line each: ``rebalance.stuck.threshold_ms: as shipped -> 3000``."""
    old, new = dict(_flat(before)), dict(_flat(after))
    lines = [
        f"{name}: {old.get(name, 'as shipped')} -> {new.get(name, 'as shipped')}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return lines or ["the order of the rules about groups"]


def _flat(policy: Policy) -> Iterator[tuple[str, Any]]:
    """Every setting by a name that is its own."""
    yield "runbook", policy.runbook
    yield from _flat_numbers("", policy.numbers)
    for rule in policy.groups:
        for name in ("ignore", "severity_cap", "matters"):
            value = getattr(rule, name)
            if value is not None:
                yield f"{rule.groups}: {name}", getattr(value, "name", value)
        for label, text in rule.labels.items():
            yield f"{rule.groups}: labels.{label}", text
        yield from _flat_numbers(f"{rule.groups}: ", rule.numbers)


def _flat_numbers(before: str, numbers: Numbers) -> Iterator[tuple[str, Any]]:
    for condition, changed in numbers.items():
        for number, value in changed.items():
            yield f"{before}{condition}.{number}", value


def _either(names: Mapping[str, Any]) -> str:
    return " or ".join(f'"{name}"' for name in names)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _wrong(f"cannot read the rules, {error.strerror}", str(path), "check --rules") from None
    except ValueError:
        raise _wrong("the rules are not UTF-8", str(path), "save the file as UTF-8") from None


def _wrong(what: str, where: str, fix: str) -> GroupReplayError:
    return GroupReplayError(what, where=where, fix=fix, exit_code=ExitCode.USAGE)
