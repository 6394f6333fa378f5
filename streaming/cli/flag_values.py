"""Values of flags: points in time, durations, lists of names, pairs, addresses."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

import click

from groupreplay.streaming.base.clock import now_ms

#: Units of a duration or an age, in milliseconds.
_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment(value: str | int) -> int:
    """A point in time in milliseconds since 1970.

    Accepts that number, ISO 8601 (UTC without an offset), and an age such as ``2h``.
    """
    text = str(value)
    if text.lstrip("-").isdigit():
        return int(text)
    if text[:-1].isdigit() and text[-1] in _UNITS:
        return now_ms() - int(text[:-1]) * _UNITS[text[-1]]
    try:
        at = datetime.fromisoformat(text.removesuffix("Z").removesuffix("z"))
    except ValueError:
        what = (
            f"{text!r} is not a time; write 2026-01-31T02:00:00Z, epoch milliseconds, or 2h for two hours ago"
        )
        raise click.BadParameter(what) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    return round(at.timestamp() * 1000)


def duration(value: str) -> int:
    """A duration such as ``90s``, ``30m``, ``24h`` or ``7d``, in milliseconds."""
    text = value.strip()
    if text[-1:] not in _UNITS or not text[:-1].isdigit():
        raise click.BadParameter(f"{text!r} is not a duration; write 24h, 7d, 30m or 90s")
    return int(text[:-1]) * _UNITS[text[-1]]


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
