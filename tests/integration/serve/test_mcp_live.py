"""``serve --mcp`` on a live cluster: an assistant asks a process about groups that real clients have made."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anyio
import pytest
from httpx2 import AsyncClient
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.sink_messages import job_document
from support.kafka.clients import make_topics, produce
from support.kafka.polled_members import PolledMembers
from support.kafka.waiting import wait_until
from support.serve.asked_site import TOKEN
from support.serve.serve_process import serving

pytestmark = pytest.mark.broker

PREFIX = "mcp-live-"
GROUP, TOPIC = f"{PREFIX}orders", f"{PREFIX}topic"


def about(address: str, name: str, group: str) -> dict[str, Any]:
    """The answer of a tool about a group."""

    async def conversation() -> CallToolResult:
        async with (
            AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120) as web,
            Client(streamable_http_client(f"http://{address}/api/mcp", http_client=web)) as client,
        ):
            return await client.call_tool(name, {"group": group})

    answer = anyio.run(conversation)
    (content,) = answer.content
    assert isinstance(content, TextContent)
    assert not answer.is_error, content.text
    found: dict[str, Any] = json.loads(content.text)["result"][0]
    return found


def status(address: str) -> int:
    """What a question about the tools is answered with."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with closing(HTTPConnection(address, timeout=60)) as connection:
        connection.request("POST", "/api/mcp", body, {**headers, "Authorization": f"Bearer {TOKEN}"})
        return connection.getresponse().status


def test_an_assistant_asks_about_a_live_group(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The members and owners are those of the consumers that run now; a job that begins to hide names ends it."""
    servers = broker.bootstrap_servers
    names = [f"{PREFIX}{getattr(TopicNames(), kind)}" for kind in ("events", "states", "job", "probes")]
    make_topics(servers, {TOPIC: 4, **dict.fromkeys(names, 1)})
    job, token = f"{PREFIX}group-job", tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    produce(servers, job, [(JOB_KEY, job_document(now_ms(), hides_names=False))])
    members = PolledMembers(servers, timeout_ms=240_000)
    members.join("one", GROUP, TOPIC)
    members.join("two", GROUP, TOPIC)
    members.wait_until(lambda: members.owned("one", "two") == [2, 2])
    flags = ("--mcp", "--topic-prefix", PREFIX, "--auth-token-file", str(token))
    with serving(servers, tmp_path / "serve.log", *flags) as (_, address):
        wait_until(lambda: status(address) == 200)
        described, explained = (about(address, name, GROUP) for name in ("describe", "explain"))
        produce(servers, job, [(JOB_KEY, job_document(now_ms(), hides_names=True))])
        wait_until(lambda: status(address) == 403)
    members.close()
    assert (described["group_id"], described["state"]) == (GROUP, "Stable")
    assert sorted(member["client_id"] for member in described["members"]) == ["one", "two"]
    assert explained["group_id"] == GROUP
