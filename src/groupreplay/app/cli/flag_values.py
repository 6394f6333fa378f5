"""Values of flags: points in time, durations, lists of names, pairs, addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from groupreplay.app.text.times import GivenTime, duration_ms, given_time
from groupreplay.streaming.base.errors import did_you_mean
from groupreplay.streaming.base.time_zones import TimeZone, time_zone


def moment(value: str | GivenTime) -> GivenTime:
    """A point in time; ``cli/time_range.py`` makes milliseconds of it when the end of the data is known."""
    if isinstance(value, GivenTime):
        return value
    try:
        return given_time(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def zone(value: str | TimeZone) -> TimeZone:
    """The zone of ``--time-zone``: a name of the IANA database or an offset."""
    if isinstance(value, TimeZone):
        return value
    try:
        return time_zone(value)
    except ValueError as error:
        what = f"{error}; write UTC, a name such as Europe/Berlin, or an offset such as +02:00"
        raise click.BadParameter(what) from None


def duration(value: str) -> int:
    """A duration such as ``90s``, ``30m``, ``1.5h`` or ``7d``, in milliseconds."""
    try:
        return duration_ms(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def names(value: str) -> tuple[str, ...]:
    """Names separated by commas, as Kafka's tools take them."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


def names_of(known: Callable[[], Sequence[str]]) -> Callable[[str], tuple[str, ...]]:
    """Names separated by commas that are all ``known``, which is called only if one is given.

    Case, hyphens and underscores do not matter; the names are returned as they are known.
    """

    def read(value: str) -> tuple[str, ...]:
        given = names(value)
        spelled = {plain_name(one): one for one in known()} if given else {}
        for one in given:
            if plain_name(one) not in spelled:
                hint = did_you_mean(one, list(spelled.values()))
                raise click.BadParameter(
                    f"unknown name {one!r}; {hint}known are {', '.join(spelled.values())}"
                )
        return tuple(spelled[plain_name(one)] for one in given)

    return read


def plain_name(name: str) -> str:
    """``NotReady``, ``notready`` and ``not_ready`` are the same."""
    return name.lower().replace("_", "").replace("-", "")


def pair(value: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, equals, text = value.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return key, text


def listen_address(value: str) -> tuple[str, int]:
    """``127.0.0.1:9408`` or ``[::1]:9408``."""
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        raise click.BadParameter(f"{value!r} is not HOST:PORT; write 127.0.0.1:9408")
    return host.removeprefix("[").removesuffix("]"), int(port)
