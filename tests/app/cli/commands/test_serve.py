"""The flags of ``serve``: which clusters, and who may read; the process is in tests/integration."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from groupreplay.app.cli.assistants import reading_flags
from groupreplay.app.cli.commands import serve
from groupreplay.app.exporter.feed import Limits
from groupreplay.app.serve.watched_cluster import ClusterToServe
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.kafka import clients
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.captures import invoke
from support.kafka.waiting import wait_until
from support.remedies import read_remedy
from support.serve.http_streams import asked


def test_limits_of_the_metrics() -> None:
    """Milliseconds of the flag are seconds there; without the flag the job's own trigger decides."""
    fields = {field.name: None for field in dataclasses.fields(serve.ServeSettings)}
    fields |= {"partition_metrics": False, "kafka_exporter_names": True}
    timeouts = {30_500: 30.5, None: None}
    for milliseconds, seconds in timeouts.items():
        settings = serve.ServeSettings(**{**fields, "max_groups": 7, "heartbeat_timeout": milliseconds})
        assert settings.limits() == Limits(max_groups=7, timeout_seconds=seconds, kafka_exporter_names=True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[list[ClusterToServe]]:
    """What the command would serve; it ends before it connects."""
    found: list[list[ClusterToServe]] = []

    def keep(settings: serve.ServeSettings) -> list[ClusterToServe]:
        found.append(original(settings))
        raise KeyboardInterrupt

    original = serve._clusters
    monkeypatch.setattr(serve, "_clusters", keep)
    return found


def properties(folder: Path, name: str, servers: str) -> str:
    """A properties file."""
    file = folder / f"{name}.properties"
    file.write_text(f"bootstrap.servers={servers}\nclient.id={name}\n")
    return str(file)


def test_one_cluster(served: list[list[ClusterToServe]]) -> None:
    """The topics may be on another cluster than the groups."""
    invoke("serve", "--bootstrap-server", "a:1", "--sink-bootstrap-server", "b:1", "--topic-prefix", "x-")
    ((one,),) = served
    assert (one.source.bootstrap_servers, one.sink.bootstrap_servers) == ("a:1", "b:1")
    assert (one.topics.events, one.topics.probes) == ("x-group-events", "x-group-probes")


def test_several_clusters(served: list[list[ClusterToServe]], tmp_path: Path) -> None:
    """Each with its own login, and if need be its own cluster and prefix of topics."""
    east, west, sink = (properties(tmp_path, name, f"{name}:1") for name in ("east", "west", "sink"))
    invoke(
        *("serve", "--cluster", f"east={east}", "--cluster", f"west={west}"),
        *("--cluster-sink", f"west={sink}", "--cluster-prefix", "west=w."),
    )
    ((first, second),) = served
    assert (first.name, first.source, first.topics.events) == ("east", first.sink, "group-events")
    assert first.source.properties["client.id"] == "east"
    assert (second.source.bootstrap_servers, second.sink.bootstrap_servers) == ("west:1", "sink:1")
    assert (second.topics.events, second.topics.job) == ("w.group-events", "w.group-job")


def test_clusters_that_cannot_be_reached(tmp_path: Path) -> None:
    """Of several clusters they do not keep the server from starting: each says why it cannot be read."""
    files = [
        properties(tmp_path, name, servers) for name, servers in (("east", "127.0.0.1:1"), ("west", "::::"))
    ]
    words = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--cluster",
        f"east={files[0]}",
        "--cluster",
        f"west={files[1]}",
    ]
    command = [sys.executable, "-m", "groupreplay", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            port = int(process.stderr.readline().partition("http://127.0.0.1:")[2].partition("/")[0])

            def errors() -> list[str | None]:
                clusters = json.loads(asked(port, "/api/clusters")[1])["clusters"]
                return [cluster["error"] for cluster in clusters]

            wait_until(lambda: None not in errors())
            east, west = errors()
            assert "127.0.0.1:1" in str(east)
            assert "::::" in str(west)
            assert asked(port, "/")[0] == 200
            status, reasons = asked(port, "/readyz")
            assert (status, b"east: " in reasons, b"west: " in reasons) == (503, True, True)
        finally:
            process.terminate()
    assert process.returncode == 128 + signal.SIGTERM


def test_one_cluster_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone it is an error at the start: a wrong address is seen at once."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1.0)
    result = invoke("serve", "--bootstrap-server", "127.0.0.1:1", "--listen", "127.0.0.1:0")
    assert (result.exit_code, "127.0.0.1:1" in result.stderr) == (ExitCode.CONNECTION, True)


@pytest.mark.parametrize(
    ("flags", "names"),
    [((), ["east"]), (("--bootstrap-server", "b:1"), ["kafka"]), (("--cluster", "w=W"), ["w"])],
)
def test_clusters_in_the_configuration_file(
    served: list[list[ClusterToServe]], tmp_path: Path, flags: tuple[str, ...], names: list[str]
) -> None:
    """Clusters of serve come before the cluster of all commands; what is typed comes before both."""
    east, west = (properties(tmp_path, name, f"{name}:1") for name in ("east", "west"))
    config = tmp_path / "config.toml"
    config.write_text(f'bootstrap-server = "a:1"\n[serve]\ncluster = ["east={east}"]\n')
    invoke("--config", config, "serve", *(flag.replace("W", west) for flag in flags))
    assert [[cluster.name for cluster in clusters] for clusters in served] == [names]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "No cluster is named"),
        (("--cluster", "a=FILE", "--bootstrap-server", "b:1"), "not both"),
        (("--cluster", "a=FILE", "--cluster-sink", "b=FILE"), "There is no --cluster b=FILE"),
        (("--cluster", "a/b=FILE"), "is no name for a cluster"),
        (("--bootstrap-server", "a:1", "--history", "long"), "is not a duration"),
        (("--bootstrap-server", "a:1", "--listen", "9408"), "is not HOST:PORT"),
        (("--bootstrap-server", "a:1", "--heartbeat-timeout", "5"), "is not a duration"),
        (("--bootstrap-server", "a:1", "--public-url", "groups.example.com"), "is no address of pages"),
        (("--metrics-only",), "No cluster is named"),
        (
            ("--metrics-only", "--auth-token-file", "FILE"),
            "--auth-token-file has no meaning with --metrics-only",
        ),
        (("--metrics-only", "--history", "1d"), "--history has no meaning with --metrics-only"),
        (
            ("--metrics-only", "--redact", "hosts", "--redact-key-file", "FILE"),
            "--redact has no meaning with --metrics-only",
        ),
    ],
)
def test_flags_that_do_not_fit(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    """An error of usage, before anything is opened."""
    file = properties(tmp_path, "east", "east:1")
    result = invoke("serve", *(flag.replace("FILE", file) for flag in flags))
    assert (result.exit_code, says in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "example.com"])
def test_closed_by_default(host: str) -> None:
    """An address that other machines reach needs a token, whatever else is given."""
    result = invoke("serve", "--bootstrap-server", "a:1", "--listen", f"{host}:0")
    assert result.exit_code == ExitCode.USAGE
    assert "other machines would read everything without a token" in result.stderr
    assert "--auth-token-file" in result.stderr


def test_a_token_that_is_none(tmp_path: Path) -> None:
    """A file that is empty does not open the server."""
    (tmp_path / "token").write_text("\n")
    flags = ("--listen", "0.0.0.0:0", "--auth-token-file", str(tmp_path / "token"))
    result = invoke("serve", "--bootstrap-server", "a:1", *flags)
    assert (result.exit_code, "the token must have 16" in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.broker
def test_metrics_only(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """On any address without a token; answers before the job has ever run, and writes no file; ends on SIGTERM."""
    command = [sys.executable, "-m", "groupreplay", "serve", "--metrics-only", "--listen", "0.0.0.0:0"]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--states-topic", unique("states")]
    with GuardedProcess(command, tmp_path / "log") as process:
        wait_until(lambda: "metrics on" in process.tail(5))
        (port,) = re.findall(r"groupreplay: metrics on http://0\.0\.0\.0:(\d+)/metrics", process.tail(5))
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            assert b"\ngroupreplay_exporter_ready 0.0\n" in answer.read()
        statuses = [asked(int(port), path)[0] for path in ("/api/clusters", "/groups/g", "/readyz")]
        assert statuses == [404, 404, 503]
        wait_until(lambda: "the topic does not exist, or this login may not see it" in process.tail(5))
        process.ask_to_end()
        wait_until(lambda: process.exit_code is not None)
        assert process.exit_code == 128 + signal.SIGTERM


def test_assistants_get_no_hidden_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--mcp`` is refused with a redaction, without which the cluster is asked, and has no meaning without pages."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1.0)
    key = tmp_path / "key"
    key.write_text("0123456789abcdef" * 2)
    key.chmod(0o600)
    words = ("serve", "--mcp", "--bootstrap-server", "127.0.0.1:1")
    hidden = invoke(*words, "--redact", "hosts", "--redact-key-file", key)
    assert hidden.exit_code == ExitCode.USAGE
    read_remedy("app.cli.commands.serve: --mcp cannot be given with --redact", hidden.stderr)
    assert invoke(*words).exit_code == ExitCode.CONNECTION
    metrics = invoke(*words, "--metrics-only")
    assert "--mcp has no meaning with --metrics-only." in metrics.stderr


def test_an_assistant_reads_with_the_logins_of_the_pages(
    served: list[list[ClusterToServe]], tmp_path: Path
) -> None:
    """Each question is a command with the cluster, the files and the topic of answers that ``serve`` was given."""
    east, west, sink = (properties(tmp_path, name, f"{name}:1") for name in ("east", "west", "sink"))
    named = ("--cluster", f"east={east}", "--cluster", f"west={west}", "--cluster-sink", f"west={sink}")
    invoke("serve", "--bootstrap-server", "a:1", "--topic-prefix", "x-")
    invoke("serve", "--sink-bootstrap-server", "b:1", "--sink-command-config", sink)
    invoke("serve", *named)
    assert [[reading_flags(cluster) for cluster in clusters] for clusters in served] == [
        [("--bootstrap-server=a:1", "--probes-topic=x-group-probes")],
        [("--bootstrap-server=b:1", f"--command-config={sink}")],
        [
            ("--bootstrap-server=east:1", f"--command-config={east}"),
            (
                "--bootstrap-server=west:1",
                f"--command-config={west}",
                "--sink-bootstrap-server=sink:1",
                f"--sink-command-config={sink}",
            ),
        ],
    ]
