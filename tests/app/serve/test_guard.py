"""Who may ask what: Host headers, tokens, bodies, rates, and headers of answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupreplay.app.serve.guard import BURST, is_loopback, read_token
from groupreplay.app.serve.pages import POLICY
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.job.sink_messages import SINCE_MS
from support.reachable import reachable_folder
from support.serve.asked_site import TOKEN, AskedSite
from support.serve.written_clusters import served_cluster

NOW = SINCE_MS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedCluster]:
    """One without groups."""
    with served_cluster(tmp_path_factory.mktemp("guard"), NOW) as made:
        yield made


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        ("", 401),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        ("Bearer \xff", 401),
    ],
)
def test_the_api_needs_the_token(cluster: WatchedCluster, header: str, status: int) -> None:
    """Exactly this one, and as a bearer token; nothing of the data is in the refusal."""
    site = AskedSite(NOW, cluster, token=TOKEN)
    answer = site.client.get("/api/clusters", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == status
    if status == 401:
        assert answer.json() == {"error": "a token is needed: Authorization: Bearer TOKEN"}
        assert answer.headers["www-authenticate"] == "Bearer"


def test_two_headers_are_not_one(cluster: WatchedCluster) -> None:
    """Of two Authorization headers the right one does not count."""
    site = AskedSite(NOW, cluster, token=TOKEN)
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
    assert site.client.get("/api/clusters", headers=headers).status_code == 401


def test_what_needs_no_token(cluster: WatchedCluster) -> None:
    """Metrics and health are open as with --metrics-only; the shells hold no data; everything below /api/ is closed."""
    site = AskedSite(NOW, cluster, token=TOKEN)
    assert {path: site.client.get(path).status_code for path in ("/metrics", "/healthz", "/readyz", "/")} == {
        "/metrics": 200,
        "/healthz": 503,
        "/readyz": 503,
        "/": 200,
    }
    group = site.client.get("/groups/some%2Fgroup")
    assert (group.status_code, "some" in group.text) == (200, False)
    closed = [
        "/api/groups",
        "/api/groups/g",
        "/api/groups/g/timeline",
        "/api/openapi.json",
        "/api/",
        "/api/nothing",
    ]
    assert {site.client.get(path).status_code for path in [*closed, "/api/events/stream"]} == {401}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9408", 200),
        ("[::1]:9408", 200),
        ("localhost:80", 200),
        ("LOCALHOST.", 200),
        ("10.0.0.7:9408", 200),
        ("groups.example.com", 200),
        ("Groups.Example.com:443", 200),
        ("evil.example.com", 400),
        ("127.0.0.1.evil.example.com", 400),
        ("localhost@evil.example.com", 400),
        ("groups.example.com evil", 400),
        ("", 400),
        ("a,b", 400),
    ],
)
def test_the_name_of_the_server(cluster: WatchedCluster, host: str, status: int) -> None:
    """Addresses, localhost and allowed names: a foreign name that leads here is somebody's page that rebinds DNS."""
    site = AskedSite(NOW, cluster, hosts=["groups.example.com"])
    assert site.client.get("/api/clusters", headers={"Host": host}).status_code == status
    assert site.client.get("/", headers={"Host": host}).status_code == status
    assert site.client.get("/metrics", headers={"Host": host}).status_code == 200


def test_only_questions_without_a_body(cluster: WatchedCluster) -> None:
    """Nothing can be changed here, and nothing is read from a client."""
    client = AskedSite(NOW, cluster).client
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        answer = client.request(method, "/api/clusters")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert client.request("GET", "/api/clusters", content=b"x").status_code == 413
    assert client.request("GET", "/metrics", content=iter([b"x"])).status_code == 413
    assert client.head("/api/clusters").text == ""


def test_the_headers_of_every_answer(cluster: WatchedCluster) -> None:
    """Nothing inline, no frames, no guesses of types, no cookies, nothing for other sites, no copies of data."""
    client = AskedSite(NOW, cluster, token=TOKEN).client
    for path in ("/", "/groups/g", "/static/page.css", "/api/clusters", "/metrics", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert not {"set-cookie", "access-control-allow-origin"} & {*headers}
    assert client.get("/api/clusters").headers["cache-control"] == "no-store"


def test_files_by_name(cluster: WatchedCluster) -> None:
    """A file that a browser has is not sent again; no path leads out of the files."""
    client = AskedSite(NOW, cluster).client
    first = client.get("/static/page.css")
    assert (first.status_code, first.headers["content-type"]) == (200, "text/css; charset=utf-8")
    etag = first.headers["etag"]
    again = client.get("/static/page.css", headers={"If-None-Match": f'"other", {etag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert not etag.startswith("W/")
    plain, packed = (
        client.get("/static/page.css", headers={"Accept-Encoding": encoding})
        for encoding in ("identity", "gzip")
    )
    assert (plain.content, plain.headers.get("content-encoding")) == (packed.content, None)
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
    for name in ("..%2f__init__.py", "%2e%2e/guard.py", "page.css%00", "echarts.LICENSE", "board.html", ""):
        assert client.get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/", "/groups/g", "/incidents"])
def test_a_page_names_the_version_of_its_files(cluster: WatchedCluster, path: str) -> None:
    """A browser keeps them and never asks again; by any other name a file may change, and is asked for each time."""
    client = AskedSite(NOW, cluster).client
    addresses = re.findall(r'"(/static/[^"]+)"', client.get(path).text)
    kept = {client.get(address).headers["cache-control"] for address in addresses}
    assert kept == {"private, max-age=31536000, immutable"}
    for other in ("/static/page.css", "/static/page.css?v=1"):
        assert client.get(other).headers["cache-control"] == "no-cache"


def test_too_many_requests(cluster: WatchedCluster) -> None:
    """429 with a time to wait; metrics are answered still."""
    site = AskedSite(NOW, cluster, seconds=lambda: 0.0)
    answers = [site.client.get("/api/conditions") for _ in range(int(BURST) + 1)]
    assert [one.status_code for one in answers[-2:]] == [200, 429]
    assert answers[-1].headers["retry-after"] == "1"
    assert site.client.get("/metrics").status_code == 200


@pytest.mark.parametrize("text", ["", "brief!", "x" * 5_000, "a" * 20 + "\x07", "ä" * 20])
def test_no_token(tmp_path: Path, text: str) -> None:
    """Too short to be a secret, or not sendable in a header: an error that says how to make one."""
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(GroupReplayError) as caught:
        read_token(file)
    assert caught.value.exit_code == ExitCode.USAGE
    assert "openssl rand" in str(caught.value.fix)
    assert not text or text not in str(caught.value)


def test_a_token(tmp_path: Path) -> None:
    """Without the line end; a missing file is an error."""
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert read_token(file) == TOKEN
    with pytest.raises(GroupReplayError, match="cannot read the token"):
        read_token(tmp_path / "none")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("example.com", False),
    ],
)
def test_loopback(host: str, local: bool) -> None:
    """A name could lead anywhere."""
    assert is_loopback(host) is local


def test_a_token_that_others_can_read(caplog: pytest.LogCaptureFixture) -> None:
    """It works, with a warning that has the mode and the remedy."""
    with reachable_folder() as folder:
        file = folder / "token"
        file.write_text("x" * 32)
        file.chmod(0o644)
        assert read_token(file) == "x" * 32
        warning = f"every user of this machine can read the token in {file} (mode 0644): chmod 600 {file}"
        assert caplog.messages == [warning]
