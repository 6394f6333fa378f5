"""The ports of the servers of this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from groupreplay.streaming.local import ports


def test_ports_that_no_client_takes() -> None:
    """They are different, free, and never one that the kernel gives to an outgoing connection."""
    found = ports.free_ports(20)
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(found)) == 20
    assert [port for port in found if not 1_024 < port < first] == []
    for port in found:
        with socket.create_server(("127.0.0.1", port)):
            pass


@pytest.mark.parametrize("text", [None, "", "many few", "1024 65535"])
def test_a_kernel_that_does_not_say_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Ports are found all the same; where clients may get every port, any free one has to do."""
    file = tmp_path / "range"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(ports, "_OUTGOING_FILE", file)
    one, two = ports.free_ports(2)
    assert one != two
    assert min(one, two) >= 1_024


def test_no_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the ports that were tried."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_LEAST", port)
        monkeypatch.setattr(ports, "_outgoing_from", lambda: port + 1)
        with pytest.raises(OSError, match=f"no free port between {port} and {port + 1}"):
            ports.free_ports(1)
