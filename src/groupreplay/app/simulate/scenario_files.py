"""Reads scenario files: the built-in ones beside this module, and the user's own (docs/simulations.md).

Every error names the file, the place in it, the value, and what is allowed there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from groupreplay.app.simulate.scenario_errors import HELP, translated
from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.scenario_file import Choice, MixturePart, ScenarioFile
from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    PROTOCOL_VERSION,
    Setting,
    SettingValue,
    contradictions,
    shown,
)
from groupreplay.streaming.base.errors import GroupReplayError, did_you_mean, unusable

SUFFIX: Final = ".toml"
_FOLDER: Final = Path(__file__).with_name("scenarios")
#: What a name may consist of, since it is part of the group ids.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


def built_in_names() -> list[str]:
    """The names of the built-in scenarios."""
    return sorted(path.stem for path in _FOLDER.glob(f"*{SUFFIX}"))


def built_in_text(name: str) -> str:
    """The file of a built-in scenario.

    Raises:
        GroupReplayError: there is no such scenario.
    """
    return _read(_path(name, None))


def load_scenario(name: str) -> Scenario:
    """A built-in scenario by name, or the scenario of a file: a name that ends with ``.toml``.

    Raises:
        GroupReplayError: there is no such scenario, or its file or one that it refers to has a mistake.
    """
    return _loaded(_path(name, None), {}, ())


def checked_properties(
    table: Mapping[str, Setting], given: Mapping[str, str], flag: str
) -> dict[str, SettingValue]:
    """The settings of a flag such as ``--broker-property``, by Kafka's names.

    Raises:
        GroupReplayError: a name is unknown, or a value is not allowed.
    """
    found = {}
    for name, text in given.items():
        if name not in table:
            raise _unknown(table, name, flag)
        try:
            found[name] = table[name].parsed(text)
        except ValueError as error:
            raise unusable(str(error), flag, "docs/simulations.md lists the settings") from None
    return found


def check_broker(values: Mapping[str, SettingValue], where: str, *, scala: bool = True) -> None:
    """Check that a broker would start with these settings; ``scala``: one with the older coordinator.

    Raises:
        GroupReplayError: two settings contradict each other, or the broker does not know one of them.
    """
    if PROTOCOL_VERSION in values and not scala:
        what = f"brokers since 4.0 do not know {PROTOCOL_VERSION}"
        raise unusable(what, where, "add --scala: earlier ones have the older coordinator")
    found = next(iter(contradictions(BROKER_SETTINGS, values)), None)
    if found is not None:
        raise unusable(
            f"a broker does not start with these settings, {found}", where, "change one of the two"
        )


def check_clients(scenario: Scenario, where: str) -> None:
    """Check that clients would start with the settings of a scenario.

    Raises:
        GroupReplayError: two settings contradict each other.
    """
    found = scenario.contradiction()
    if found is not None:
        raise unusable(
            f"a client does not start with these settings, {found}", where, "change one of the two"
        )


def _path(name: str, beside: Path | None) -> Path:
    if name.endswith(SUFFIX):
        path = Path(name) if beside is None else beside.parent / name
        if not _NAME.fullmatch(path.stem):
            fix = "rename it with letters, digits, '.', '_' and '-'"
            raise unusable("the name of a scenario file is part of the group ids", path, fix)
        return path
    known = built_in_names()
    if name not in known:
        where = None if beside is None else str(beside)
        fix = f"{did_you_mean(name, known)}groupreplay simulate --list prints all; a file ends with {SUFFIX}"
        raise unusable(f"there is no scenario {name!r}", where, fix)
    return _FOLDER / f"{name}{SUFFIX}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise unusable(f"cannot read the scenario, {error.strerror}", path, "check --scenario") from None
    except ValueError:
        raise unusable("the scenario is not UTF-8", path, "save the file as UTF-8") from None


def _loaded(path: Path, overrides: Mapping[str, Mapping[str, Any]], inside: tuple[Path, ...]) -> Scenario:
    """The scenario of a file, with tables whose settings replace those of the file."""
    if path.resolve() in inside:
        raise unusable("the scenario is a part of itself", path, "remove it from [[mixture]]")
    where = str(path)
    raw = _decoded(_read(path), where)
    # The file is checked alone first, so that an error names the file that has it.
    _converted(raw, where)
    file = _converted({**raw, **_merged(raw, overrides)}, where)
    # What surrounds a mixture wins over what its parts say, which wins over what they all have.
    parts = [
        (part.weight, _part(path, part, _merged(raw, raw["mixture"][number], overrides), inside))
        for number, part in enumerate(file.mixture)
    ]
    scenario = Scenario(name=path.stem, file=file, parts=tuple(parts))
    if not inside:
        check_broker(file.broker, where)
        check_clients(scenario, where)
    return scenario


def _merged(*tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of clients and groups; later ones win."""
    merged: dict[str, dict[str, Any]] = {"client": {}, "group": {}}
    for one in tables:
        for name, settings in merged.items():
            settings.update(one.get(name, {}))
    return merged


def _part(
    path: Path, part: MixturePart, overrides: Mapping[str, Mapping[str, Any]], inside: tuple[Path, ...]
) -> Scenario:
    found = _loaded(_path(part.scenario, path), overrides, (*inside, path.resolve()))
    of_brokers = (found.file.broker_restarts, found.file.failed_appends)
    if found.file.broker or any(one is not None for one in of_brokers):
        what = f"the scenario {part.scenario} has settings of the brokers, which are those of all groups"
        raise unusable(what, path, "mix scenarios without them, and write them into this file")
    return found


def _decoded(text: str, where: str) -> dict[str, Any]:
    try:
        return msgspec.toml.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise unusable(f"the scenario is not TOML: {error}", where, HELP) from None


def _converted(raw: dict[str, Any], where: str) -> ScenarioFile:
    """The file, with the values of settings checked."""
    try:
        file = msgspec.convert(raw, ScenarioFile)
        broker = _checked(BROKER_SETTINGS, file.broker, where, "[broker]")
        client = _checked(CLIENT_SETTINGS, file.client, where, "[client]")
        for number, part in enumerate(file.mixture, 1):
            _checked(CLIENT_SETTINGS, part.client, where, f"[[mixture]] {number}, client")
    except msgspec.ValidationError as error:
        raise translated(str(error), raw, where) from None
    return msgspec.structs.replace(file, broker=broker, client=client)


def _checked(
    table: Mapping[str, Setting], values: Mapping[str, Any], where: str, place: str
) -> dict[str, Any]:
    """The values of Kafka's settings; those of clients may be choices."""
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in table:
            raise _unknown(table, name, f"{where}, {place}")
        try:
            if isinstance(value, dict) and table is CLIENT_SETTINGS:
                choice = msgspec.convert(value, Choice)
                options = tuple(table[name].checked(one) for one in choice.one_of)
                checked[name] = msgspec.structs.replace(choice, one_of=options)
            else:
                checked[name] = table[name].checked(value)
        except msgspec.ValidationError as error:
            raise unusable(f"{name} = {value}: {error}", where, "write { one-of = [...] }") from None
        except ValueError as error:
            raise unusable(str(error), f"{where}, {place}", HELP) from None
    return checked


def _unknown(table: Mapping[str, Setting], name: str, where: str) -> GroupReplayError:
    other, others = ("client", CLIENT_SETTINGS) if table is BROKER_SETTINGS else ("broker", BROKER_SETTINGS)
    if name in others:
        return unusable(
            f"{name} is a setting of the {other}", where, f"write it below [{other}], or --{other}-property"
        )
    return unusable(
        f"unknown setting {shown(name)!r}",
        where,
        f"{did_you_mean(name, table)}known here: {', '.join(table)}",
    )
