"""``/api/mcp`` as an assistant uses it: the official client, over HTTP, behind the guard of ``serve``."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
import pytest
from anyio import CapacityLimiter
from httpx2 import AsyncClient
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from groupreplay.app.mcp.answers import Commands
from groupreplay.app.mcp.server import http_application, make_server
from groupreplay.app.serve import mcp_endpoint
from groupreplay.app.serve.local_feed import LocalFeed
from groupreplay.app.serve.mcp_endpoint import MOST_BYTES, MOST_QUESTIONS
from groupreplay.app.serve.watched_cluster import TopicRecorder, WatchedCluster
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY, Output, OutputRow
from support.job.captures import invoke, simulated_capture
from support.job.sink_messages import SINCE_MS, job_document
from support.kafka.waiting import children_with, wait_until
from support.serve.asked_site import TOKEN
from support.serve.http_streams import served_over_http
from support.serve.written_clusters import served_cluster

GROUP = "stuck-000000"
LIST: Mapping[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups over two hours; the rebalance of one was stuck."""
    words = ("--groups", "2", "--seconds", "7200", "--seed", "1", "--scenario", "stuck")
    return simulated_capture(tmp_path_factory.mktemp("http") / "stuck.parquet", *words)


def told(recorder: TopicRecorder, *documents: bytes) -> LocalFeed:
    """A feed that has read these documents of the job."""
    feed = LocalFeed(recorder, TopicNames(), "e", [("t", 0)], lambda: SINCE_MS)
    feed.take([OutputRow(Output.JOB, JOB_KEY, document) for document in documents])
    feed.complete()
    return feed


@contextmanager
def watched(folder: Path, name: str = "kafka", *, hides: bool | None = False) -> Iterator[WatchedCluster]:
    """A cluster whose job says whether it hides names."""
    document = job_document(SINCE_MS, hides_names=hides)
    with served_cluster(folder, SINCE_MS, name, feed_of=lambda recorder: told(recorder, document)) as cluster:
        yield cluster


def reading(*captures: Path) -> list[Any]:
    """What answers about each of these captures."""
    places = CapacityLimiter(1)
    return [
        http_application(make_server(Commands(("--from-file", str(path)), places=places)))
        for path in captures
    ]


@contextmanager
def site(folder: Path, capture: Path, **more: Any) -> Iterator[int]:
    """The port of one served cluster."""
    hides = more.pop("hides", False)
    with watched(folder, hides=hides) as cluster:
        (application,) = reading(capture)
        with served_over_http(SINCE_MS, cluster, assistants={"kafka": application}, **more) as port:
            yield port


def asked(
    port: int,
    name: str,
    given: Mapping[str, Any],
    *,
    mode: Literal["auto", "legacy"] = "auto",
    token: str = TOKEN,
    query: str = "",
) -> tuple[set[str], CallToolResult]:
    """The names of the tools, and the answer of one."""

    async def conversation() -> tuple[set[str], CallToolResult]:
        async with AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as web:
            wire = streamable_http_client(f"http://127.0.0.1:{port}/api/mcp{query}", http_client=web)
            async with Client(wire, mode=mode) as client:
                listed = await client.list_tools()
                return {tool.name for tool in listed.tools}, await client.call_tool(name, dict(given))

    return anyio.run(conversation)


def document(answer: CallToolResult) -> dict[str, Any]:
    """An answer that is no error."""
    (content,) = answer.content
    assert isinstance(content, TextContent)
    assert not answer.is_error, content.text
    parsed: dict[str, Any] = json.loads(content.text)
    return parsed


def posted(
    port: int, body: bytes | None = None, method: str = "POST", query: str = "", **headers: str
) -> tuple[int, Mapping[str, Any]]:
    """Status and JSON of an answer to a question by hand."""
    sent = json.dumps(LIST).encode() if body is None else body
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, f"/api/mcp{query}", sent, {**HEADERS, **named})
        answer = connection.getresponse()
        text = answer.read().decode()
    if text.startswith("event:"):
        text = text.partition("data: ")[2]
    return answer.status, json.loads(text)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_answers_of_the_commands(tmp_path: Path, capture: Path, mode: Literal["auto", "legacy"]) -> None:
    """Both forms of the protocol have the tools of stdin and stdout, and their answers, behind the token."""
    with site(tmp_path, capture, token=TOKEN) as port:
        tools, answer = asked(port, "explain", {"group": GROUP}, mode=mode)
    printed = invoke("explain", GROUP, "--from-file", capture, "-o", "json")
    assert document(answer) == {"result": json.loads(printed.stdout), "notes": [], "left_out": {}}
    assert tools == {"overview", "explain", "list_groups", "describe", "events", "lag", "ready", "advise"}


def test_each_cluster_answers_for_itself(tmp_path: Path, capture: Path) -> None:
    """``cluster=`` names it, as on every path of the API; the first one is the default."""
    other = tmp_path / "steady.parquet"
    words = ("--groups", "1", "--seconds", "60", "--scenario", "steady")
    simulated_capture(other, *words)
    with ExitStack() as parts:
        clusters = [parts.enter_context(watched(tmp_path, name)) for name in ("east", "west")]
        answering = dict(zip(("east", "west"), reading(capture, other), strict=True))
        port = parts.enter_context(served_over_http(SINCE_MS, *clusters, assistants=answering))
        groups = [
            {row["group_id"] for row in document(asked(port, "list_groups", {}, query=query)[1])["result"]}
            for query in ("", "?cluster=west")
        ]
        unknown = posted(port, query="?cluster=north")
    assert groups == [{"stuck-000000", "stuck-000001"}, {"steady-000000"}]
    assert unknown == (404, {"error": "there is no cluster of this name; /api/clusters lists them"})


@pytest.mark.parametrize(
    ("hides", "status", "why"),
    [
        (True, 403, "the job hides names, which answers to assistants would show"),
        (None, 403, "the job does not say whether it hides names: run it with this release"),
    ],
)
def test_hidden_names_are_not_told(
    tmp_path: Path, capture: Path, hides: bool | None, status: int, why: str
) -> None:
    """A job with --redact, or one that does not say: the log behind an answer has every name."""
    with site(tmp_path, capture, hides=hides) as port:
        assert posted(port) == (status, {"error": why})


def test_nothing_is_told_before_the_job_has_said_it(tmp_path: Path, capture: Path) -> None:
    """Its status is read first."""
    (application,) = reading(capture)
    with (
        served_cluster(tmp_path, SINCE_MS, feed_of=told) as cluster,
        served_over_http(SINCE_MS, cluster, assistants={"kafka": application}) as port,
    ):
        status, answer = posted(port)
    assert (status, answer["error"].partition(",")[0]) == (503, "the job's status was not read yet")


def test_who_may_ask(tmp_path: Path, capture: Path) -> None:
    """The token, the Host header and the Origin of a page count as elsewhere; only POST is answered, bounded."""
    bearer = f"Bearer {TOKEN}"
    with site(tmp_path, capture, token=TOKEN) as port:
        here = f"http://127.0.0.1:{port}"
        refused = {
            "no token": posted(port)[0],
            "another token": posted(port, Authorization=f"{bearer}x")[0],
            "another host": posted(port, Authorization=bearer, Host="evil.example.com")[0],
            "another site": posted(port, Authorization=bearer, Origin="https://evil.example.com")[0],
            "another port": posted(port, Authorization=bearer, Origin="http://127.0.0.1:3000")[0],
            "GET": posted(port, b"", "GET", Authorization=bearer)[0],
            "DELETE": posted(port, b"", "DELETE", Authorization=bearer)[0],
            "too long": posted(port, b" " * (MOST_BYTES + 1), Authorization=bearer)[0],
            "no JSON": posted(port, b"{", Authorization=bearer)[0],
            "no parameter": posted(port, b"{}", Authorization=bearer)[0],
        }
        answered = posted(port, Authorization=bearer, Origin=here)
    assert refused == {
        "no token": 401,
        "another token": 401,
        "another host": 400,
        "another site": 403,
        "another port": 403,
        "GET": 405,
        "DELETE": 405,
        "too long": 413,
        "no JSON": 400,
        "no parameter": 400,
    }
    assert (answered[0], len(answered[1]["result"]["tools"])) == (200, 8)


def test_a_question_that_does_not_end(tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends no body gets 408; so many questions wait at once, half of them of one client."""
    monkeypatch.setattr(mcp_endpoint, "CLIENT_SECONDS", 3.0)
    with site(tmp_path, capture) as port, ExitStack() as open_ones:
        slow = []
        for _ in range(MOST_QUESTIONS // 2):
            connection = open_ones.enter_context(
                closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
            )
            connection.putrequest("POST", "/api/mcp")
            connection.putheader("Content-Length", "10")
            connection.endheaders()
            slow.append(connection)
        refused: list[tuple[int, Mapping[str, Any]]] = []
        while not refused or refused[-1][0] == 200:
            refused.append(posted(port))
        assert refused[-1] == (429, {"error": "too many questions of assistants of this address"})
        answers = [connection.getresponse() for connection in slow]
        assert [(one.status, msgspec.json.decode(one.read())) for one in answers] == [
            (408, {"error": "the request was not complete within 3 s"})
        ] * len(slow)
        assert posted(port)[0] == 200


def test_without_the_flag_nothing_is_there(tmp_path: Path) -> None:
    """No POST is answered, and there is no such path."""
    with watched(tmp_path) as cluster, served_over_http(SINCE_MS, cluster) as port:
        assert posted(port)[0] == 405
        assert posted(port, b"", "GET")[0] == 404


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_that_goes_ends_its_question(tmp_path: Path, mode: Literal["auto", "legacy"]) -> None:
    """The command behind it is ended, so that it holds no place."""
    # Whoever opens it waits for a writer.
    pipe = tmp_path / "night.parquet"
    os.mkfifo(pipe)

    async def conversation(port: int) -> None:
        async with AsyncClient(timeout=120) as web:
            wire = streamable_http_client(f"http://127.0.0.1:{port}/api/mcp", http_client=web)
            async with Client(wire, mode=mode) as client, anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "explain", {"group": GROUP})
                await anyio.to_thread.run_sync(lambda: wait_until(lambda: children_with(str(pipe))))
                tasks.cancel_scope.cancel()

    with site(tmp_path, pipe) as port:
        anyio.run(conversation, port)
        wait_until(lambda: not children_with(str(pipe)))
        assert posted(port)[0] == 200
