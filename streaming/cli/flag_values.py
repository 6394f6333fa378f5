"""Values of flags: points in time, durations, lists of names, pairs, addresses."""

from __future__ import annotations

import click

from groupreplay.streaming.text.given_time import GivenTime, duration_ms, given_time
from groupreplay.streaming.text.time_zone import TimeZone, time_zone


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
