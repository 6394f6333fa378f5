"""``events --follow`` on a terminal, while a condition fires and ends."""

from __future__ import annotations

import json
import re
import signal
import sys

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.clients import make_topics, produce
from support.kafka.waiting import wait_until
from support.pseudo_terminal import ERASE, PseudoTerminal

pytestmark = pytest.mark.broker

TOPIC = "followed-events"


def event(number: int, name: str, group: str, **data: object) -> tuple[bytes, bytes]:
    """A message of the events topic."""
    severity = (17, "ERROR") if "status" in data else (9, "INFO")
    return group.encode(), json.dumps(
        {
            "specversion": "1.0",
            "id": f"id-{number}",
            "source": "groupreplay",
            "type": f"groupreplay.{name}.v1",
            "time": f"2026-01-31T02:00:{number:02d}.000Z",
            "recordedtime": f"2026-01-31T02:00:{number:02d}.000Z",
            "subject": group,
            "sequence": f"{number:020d}",
            "severitynumber": severity[0],
            "severitytext": severity[1],
            "data": {"group_id": group, "catch_up": False, **data},
        }
    ).encode()


def test_a_condition_fires_and_ends(broker: EmbeddedBroker) -> None:
    """The line below all others names it until it ends; its end is green, with its begin above it once more."""
    servers = broker.bootstrap_servers
    make_topics(servers, {TOPIC: 1})
    stuck = {"condition_id": "c", "elapsed_ms": 30_000, "state": "PreparingRebalance", "reason": "not_joined"}
    produce(servers, TOPIC, [event(1, "rebalance.stuck", "payments", status="firing", **stuck)])
    words = ["events", "--bootstrap-server", servers, "--events-topic", TOPIC, "--follow", "--since", "0"]
    with PseudoTerminal([sys.executable, "-m", "groupreplay", *words], 120) as terminal:
        wait_until(lambda: "1 condition firing: payments rebalance.stuck since" in terminal.text)
        produce(servers, TOPIC, [event(2, "group.emptied", "search", generation=1)])
        wait_until(lambda: "group emptied" in terminal.text)
        produce(servers, TOPIC, [event(31, "rebalance.stuck", "payments", status="resolved", **stuck)])
        wait_until(lambda: "resolved after" in terminal.text)
        terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.returncode == 130
    # What stands on the terminal at the end: of each row, what follows the last erasure.
    rows = [row.rpartition(ERASE)[2] for row in terminal.text.split("\n")]
    plain = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", row) for row in rows]
    shown = [" ".join(row.split()[2:]) for row in plain if row.startswith("2026-")]
    assert [row.partition("; next")[0].partition(" after ")[0] for row in shown] == [
        "ERROR payments rebalance stuck: 30.0 s so far, in PreparingRebalance, not joined",
        "INFO search group emptied: the last member has gone, generation 1",
        "ERROR payments rebalance stuck: 30.0 s so far, in PreparingRebalance, not joined",
        "OK payments └ rebalance stuck: resolved",
    ]
    assert (
        "\x1b[32m└ rebalance stuck: resolved after 30.0 s, fired 2026-01-31 02:00:01.000 (ERROR)"
        in terminal.text
    )
    assert not any("firing" in row for row in plain)
