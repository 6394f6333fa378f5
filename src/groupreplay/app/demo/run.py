"""The demo: an embedded broker, real consumer groups, the Spark job, its events from the sink, and live pages."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import click

from groupreplay.codecs.kafka_terms import shown_type
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import at_the_end
from groupreplay.streaming.local.broker import HOST, free_ports

if TYPE_CHECKING:
    from groupreplay.app.demo.scenario import Stage
    from groupreplay.app.demo.stories import Story
    from groupreplay.app.text.screen import Screen
    from groupreplay.streaming.local.broker import EmbeddedBroker
    from groupreplay.streaming.local.process_guard import GuardedProcess
    from groupreplay.streaming.sinks.event_topic import SinkReader


_START_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1


def _start_pages(
    bootstrap_servers: str, folder: Path, parts: contextlib.ExitStack
) -> tuple[GuardedProcess, str]:
    """The server of the live pages and its address; it starts beside the job, and ends with the other parts."""
    from groupreplay.streaming.local.process_guard import GuardedProcess

    (port,) = free_ports(1)
    command = [sys.executable, "-m", "groupreplay", "serve"]
    command += ["--bootstrap-server", bootstrap_servers, "--listen", f"{HOST}:{port}"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    server = parts.enter_context(GuardedProcess(command, folder / "pages.log", environment=environment))
    return server, f"http://{HOST}:{port}/"


def _pages_note(server: GuardedProcess, address: str) -> str:
    """Where the pages are; or that they could not be started: the demo goes on, its events are printed, too."""
    if _answers(server, address):
        return f"Live pages of the groups, as long as the demo runs: {address}"
    return "The live pages could not be started."


def _answers(server: GuardedProcess, address: str) -> bool:
    """Whether the server has answered in time."""
    deadline = time.monotonic() + _START_SECONDS
    while server.exit_code is None and time.monotonic() < deadline:
        try:
            with urlopen(f"{address}healthz", timeout=2):  # noqa: S310 - an address of this module
                return True
        except (URLError, OSError):
            time.sleep(_POLL_SECONDS)
    return False


_JOB_START_SECONDS: Final = 180.0
_LAST_EVENTS_SECONDS: Final = 60.0
_JOB_STOP_SECONDS: Final = 8.0


def run_demo(story: Story, seconds: int | None, screen: Screen, *, keep: bool, report: Path) -> None:
    """Run the broker, the consumers of ``story`` and the job, print the job's events, and write a report of all groups.

    ``seconds`` None: as long as the story needs. ``keep`` leaves the broker running.

    Raises:
        GroupReplayError: the broker or the job could not be started, or ended early.
    """
    from groupreplay.app.demo.scenario import Stage
    from groupreplay.streaming.local.broker import DEFAULT_VERSION, EmbeddedBroker
    from groupreplay.streaming.sinks.event_topic import SinkReader

    _prepare()
    # An exception inside this block kills the processes; only the last lines end them gracefully.
    with contextlib.ExitStack() as parts:
        scratch = tempfile.TemporaryDirectory(prefix="groupreplay-demo-", ignore_cleanup_errors=True)
        folder = Path(parts.enter_context(scratch))
        parts.enter_context(at_the_end(scratch.cleanup))
        with screen.busy(f"starting a Kafka {DEFAULT_VERSION} broker"):
            broker = parts.enter_context(EmbeddedBroker(overrides=story.broker))
        screen.note(f"Kafka {DEFAULT_VERSION} listens on {broker.bootstrap_servers}")
        stage = parts.enter_context(Stage(broker.bootstrap_servers, folder, story.steps, story.actors))
        job = parts.enter_context(_start_job(broker.bootstrap_servers, folder, story.job))
        reader = parts.enter_context(SinkReader(broker.bootstrap_servers))
        with screen.busy("starting the job (Spark takes 10 to 30 s)"):
            pages = _start_pages(broker.bootstrap_servers, folder, parts)
            _await_job(job, reader)
        screen.note(_pages_note(*pages))
        _watch(seconds or story.seconds, stage, job, reader, screen)
        _summarise(stage, reader, screen)
        with screen.busy("drawing what happened"):
            drawn = _draw(broker.bootstrap_servers, report)
        screen.note(drawn)
        with screen.busy("ending the consumers and the job"):
            job.ask_to_end()
            stage.close()
            job.end(_JOB_STOP_SECONDS)
        if keep:
            _leave_running(broker, screen)


def _prepare() -> None:
    """Finds Java and fetches jars."""
    from groupreplay.streaming.local import jars
    from groupreplay.streaming.local.broker import DEFAULT_VERSION
    from groupreplay.streaming.local.platforms import find_java, installed_release, javas_of

    # The broker and Spark may need different ones, and both would refuse a wrong one later than here.
    find_java()
    find_java(javas_of(installed_release()))
    # Before the status line starts: both show their own progress while they download.
    jars.jar_paths(f"broker-{DEFAULT_VERSION}")
    jars.jar_paths("spark-connector")


def _start_job(bootstrap_servers: str, folder: Path, flags: Sequence[str]) -> GuardedProcess:
    """The job as users start it, with all its temporary files below ``folder``."""
    from groupreplay.streaming.local.process_guard import GuardedProcess

    scratch = folder / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "groupreplay", "run"]
    command += ["--bootstrap-server", bootstrap_servers, "--checkpoint", str(folder / "checkpoint")]
    command += ["--trigger", "1", "--shuffle-partitions", "2", "--member-events", *flags]
    # In the minute of a demo a source with processes of its own and the optimising compiler only take time from the
    # job's start.
    command += ["--log-source", "connector"]
    options = ("-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={scratch}")
    java = " ".join((os.environ.get("JAVA_TOOL_OPTIONS", ""), *options)).strip()
    places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch), "JAVA_TOOL_OPTIONS": java}
    return GuardedProcess(command, folder / "job.log", environment={**os.environ, **places})


def _await_job(job: GuardedProcess, reader: SinkReader) -> None:
    """Return at the job's first heartbeat: the job emits events for everything that happens after it.

    Raises:
        GroupReplayError: the job ended, or was not ready in time.
    """
    deadline = time.monotonic() + _JOB_START_SECONDS
    while reader.caught_up_ms is None:
        _need_running(job)
        if time.monotonic() > deadline:
            raise _failure(job, f"the job was not ready within {_JOB_START_SECONDS:.0f} s")
        if reader.find_topics():
            reader.events(_POLL_SECONDS)
        else:
            time.sleep(_POLL_SECONDS)


def _need_running(job: GuardedProcess) -> None:
    if job.exit_code is not None:
        raise _failure(job, f"the job ended with exit code {job.exit_code}")


def _failure(job: GuardedProcess, what: str) -> GroupReplayError:
    """The error; prints the end of the job's log first, because its folder is about to be removed."""
    from groupreplay.state.phrases import safe_text

    for line in job.tail().splitlines():
        click.echo(f"  job: {safe_text(line, 500)}", err=True)
    return GroupReplayError(
        what, fix="the end of its log is above; try again, or report the problem with those lines"
    )


def _watch(seconds: int, stage: Stage, job: GuardedProcess, reader: SinkReader, screen: Screen) -> None:
    """Play the story, print every event as it arrives, and wait for the last events."""
    from groupreplay.app.text.event_text import event_name, line_of

    counts: Counter[str] = Counter()

    def show_events() -> None:
        for event in reader.events(0.2):
            counts[event_name(event)] += 1
            screen.line(line_of(event))

    screen.heading(f"{'time (UTC)':<12}  {'':<5}  {'group':<14}  event, read from group-events")
    start = time.monotonic()
    with screen.busy("watching"):
        while (elapsed_s := time.monotonic() - start) < seconds:
            _need_running(job)
            for step in stage.advance(elapsed_s):
                screen.action(f"{step.actor} {step.action.value}")
            screen.status(f"watching, {seconds - elapsed_s:.0f} s left")
            show_events()
        screen.status("waiting for the last events")
        deadline = time.monotonic() + _LAST_EVENTS_SECONDS
        while time.monotonic() < deadline and _known_to_job(reader) != stage.groups():
            _need_running(job)
            show_events()
        show_events()  # the documents may have been read before the events of the same batch
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    screen.heading(f"\n{sum(counts.values())} events: {kinds}")


def _known_to_job(reader: SinkReader) -> dict[str, tuple[str, int]]:
    """State and number of members of each group, from the job's documents."""
    return {
        group: (document.get("state", "?"), document.get("member_count", 0))
        for group, document in reader.documents.items()
    }


def _summarise(stage: Stage, reader: SinkReader, screen: Screen) -> None:
    """Print the groups of the compacted topic group-states, and compare them with the broker's answer."""
    from groupreplay.app.text.tables import Table, TableStyle, print_table
    from groupreplay.app.text.terminal import terminal_width

    columns = ("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION", "PROTOCOL", "MEMBERS")
    rows = [_summary_row(reader.documents[group]) for group in sorted(reader.documents)]
    screen.heading("\nThe groups now, from the compacted topic group-states:")
    width = terminal_width(sys.stdout)
    print_table(Table(columns, rows), TableStyle(colour=screen.colour, width=width, wide=width is None))
    described = stage.groups()
    if described == _known_to_job(reader):
        screen.note("The broker describes the same groups and states.")
    else:
        live = ", ".join(
            f"{group} {state} {members}" for group, (state, members) in sorted(described.items())
        )
        screen.note(f"The broker is ahead of the job; it describes: {live}")


def _summary_row(document: Mapping[str, Any]) -> list[str | int | None]:
    names = [member.get("instance_id") or member.get("client_id") for member in document.get("members", ())]
    return [
        document.get("group_id"),
        shown_type(document["type"], simple=document["simple"]),
        document.get("state"),
        document.get("member_count"),
        document.get("generation") if document.get("generation") is not None else document.get("group_epoch"),
        document.get("protocol"),
        " ".join(sorted(str(name) for name in names)),
    ]


def _draw(servers: str, report: Path) -> str:
    """Write the report of all groups, and say where it is; a folder that cannot be written to does not end the demo."""
    report = _unused(report)
    command = [sys.executable, "-m", "groupreplay", "report", "--bootstrap-server", servers]
    done = subprocess.run(
        [*command, "--all-groups", "-o", str(report)], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return f"What happened to each group, as a page for your browser: {report.resolve()}"
    lines = done.stderr.strip().splitlines() or ["no reason was given"]
    return f"No report was written: {lines[0]}"


def _unused(path: Path) -> Path:
    """The path, or one with a number if that file exists: the next demo replaces no page of an earlier one."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return next(name for name in chain([path], numbered) if not os.path.lexists(name))


def _program() -> str:
    """The command that started groupreplay; with ``make demo`` it is not on the PATH."""
    if shutil.which("groupreplay"):
        return "groupreplay"
    here = Path(sys.argv[0])
    return os.path.relpath(here) if here.name == "groupreplay" else f"{sys.executable} -m groupreplay"


def _leave_running(broker: EmbeddedBroker, screen: Screen) -> None:
    """Leave the broker running, and print how to use and how to end it."""
    pid, servers = broker.pid, broker.bootstrap_servers
    broker.detach()
    screen.heading(f"\nThe broker is still running on {servers} (pid {pid}). Inspect it:")
    for command in ("list", "describe --all-groups --members", "replay", "decode", "serve"):
        screen.note(f"  {_program()} {command} --bootstrap-server {servers}")
    screen.heading("To end it and remove its data:")
    screen.note(f"  kill {pid} && rm -r {broker.folder}")
