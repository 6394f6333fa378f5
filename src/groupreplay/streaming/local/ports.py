"""Ports of the loopback interface for servers that this machine runs for a while."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
_OUTGOING_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Where the kernel does not say it: the range that IANA gives to outgoing connections begins here.
_OUTGOING_FROM: Final = 49_152
#: Below it are the well-known services that people run on their machines.
_LEAST: Final = 10_240
_TRIES: Final = 1_000


def free_ports(count: int) -> list[int]:
    """Different ports that are free now.

    They lie below those that the kernel gives to outgoing connections: a server that is down for a moment would find
    its port taken by any client on the machine.

    Raises:
        OSError: no free port was found.
    """
    limit = _outgoing_from()
    with ExitStack() as stack:
        return [_bound(stack, limit) for _ in range(count)]


def _outgoing_from() -> int:
    try:
        return int(_OUTGOING_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OUTGOING_FROM


def _bound(stack: ExitStack, limit: int) -> int:
    """A port that is held until the stack closes."""
    # With a range that begins very low, any free port has to do.
    tried = (random.randrange(_LEAST, limit) if limit > _LEAST else 0 for _ in range(_TRIES))  # noqa: S311
    for port in tried:
        probe = stack.enter_context(socket.socket())
        try:
            probe.bind((HOST, port))
        except OSError:
            continue
        number: int = probe.getsockname()[1]
        return number
    raise OSError(f"no free port between {_LEAST} and {limit} on {HOST}")
