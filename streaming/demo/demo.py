"""``groupreplay demo``: a broker, consumer groups, the job, and what it says about them, on one machine.

Everything is real: the embedded broker, the consumers (``scenario``), the Spark job as its own process, and
the events, which are read back from the sink topic. Knows the order in which the parts start and end; must
not know how an event is found.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.cli.options import Display, display_options
from groupreplay.streaming.demo.stories import SIMULATED_ONLY, STORIES, Story

if TYPE_CHECKING:
    from groupreplay.streaming.demo.scenario import Stage
    from groupreplay.streaming.local.broker import EmbeddedBroker
    from groupreplay.streaming.local.process_guard import GuardedProcess
    from groupreplay.streaming.sinks.event_topic import SinkReader
    from groupreplay.streaming.text.screen import Screen

_JOB_START_SECONDS: Final = 180.0
_LAST_EVENTS_SECONDS: Final = 60.0
_JOB_STOP_SECONDS: Final = 8.0
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _StoppedError(BaseException):
    """A signal asked us to end; like KeyboardInterrupt, not for ``except Exception``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@click.command()
@click.option(
    "--seconds",
    type=click.IntRange(10, 3600),
    show_default="45, some scenarios longer",
    help="How long the groups are watched; starting the broker and Spark takes about half a minute more.",
)
@click.option(
    "--scenario",
    type=click.Choice((*STORIES, *SIMULATED_ONLY)),
    default="mixed",
    show_default=True,
    help="What they do; some scenarios are only for simulate.",
)
@click.option("--keep", is_flag=True, help="Leave the broker running at the end, to look around in it.")
@display_options
@click.pass_context
def demo(ctx: click.Context, seconds: int | None, scenario: str, keep: bool) -> None:
    """Watch real consumer groups join, leave, die and come back.

    Starts a Kafka broker on this machine (its jars are fetched at the first start), a few consumers, and the
    job, and shows the job's events as they arrive in the topic group-events. Needs nothing but Java 17 or 21.
    """
    if scenario in SIMULATED_ONLY:
        raise click.UsageError(
            f"The scenario {scenario} cannot be played with real clients, {SIMULATED_ONLY[scenario]}; "
            f"see it with: groupreplay simulate --scenario {scenario} -o {scenario}.parquet"
        )
    from groupreplay.streaming.text.screen import Screen

    story = STORIES[scenario]
    screen = Screen(colour=ctx.ensure_object(Display).colour)
    try:
        with _stoppable():
            _perform(story, seconds or story.seconds, keep, screen)
    except _StoppedError as stopped:
        click.echo("stopped; nothing is left running", err=True)
        ctx.exit(128 + stopped.number)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Signals end the demo from wherever it is; a further one does not disturb the clearing up."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for sign in _STOP_SIGNALS:
            signal.signal(sign, signal.SIG_IGN)
        raise _StoppedError(number)

    before = {sign: signal.signal(sign, stop) for sign in _STOP_SIGNALS}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def _perform(story: Story, seconds: int, keep: bool, screen: Screen) -> None:
    from groupreplay.streaming.demo.scenario import Stage
    from groupreplay.streaming.local.broker import EmbeddedBroker
    from groupreplay.streaming.local.jars import jar_paths
    from groupreplay.streaming.sinks.event_topic import SinkReader

    # Before anything moves on the screen: both show a progress of their own while they fetch.
    jar_paths("broker-4.3.1")
    jar_paths("spark-connector")
    # Leaving these in another way than by the last lines here kills what they started.
    with contextlib.ExitStack() as parts:
        scratch = tempfile.TemporaryDirectory(prefix="groupreplay-demo-", ignore_cleanup_errors=True)
        folder = Path(parts.enter_context(scratch))
        with screen.busy("starting a Kafka 4.3.1 broker"):
            broker = parts.enter_context(EmbeddedBroker("4.3.1", overrides=story.broker))
        screen.note(f"Kafka 4.3.1 listens on {broker.bootstrap_servers}")
        stage = parts.enter_context(Stage(broker.bootstrap_servers, folder, story.steps, story.actors))
        job = parts.enter_context(_start_job(broker.bootstrap_servers, folder, story.job))
        reader = parts.enter_context(SinkReader(broker.bootstrap_servers))
        with screen.busy("starting the job (Spark takes 10 to 30 s)"):
            _await_job(job, reader)
        _watch(seconds, stage, job, reader, screen)
        _summarise(stage, reader, screen)
        with screen.busy("ending the consumers and the job"):
            job.ask_to_end()
            stage.close()
            job.end(_JOB_STOP_SECONDS)
        if keep:
            _leave_running(broker, screen)


def _start_job(bootstrap_servers: str, folder: Path, flags: Sequence[str]) -> GuardedProcess:
    """The command that anybody would use, with everything it leaves behind in our folder."""
    from groupreplay.streaming.local.process_guard import GuardedProcess

    scratch = folder / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "groupreplay.streaming", "run"]
    command += ["--bootstrap-server", bootstrap_servers, "--checkpoint", str(folder / "checkpoint")]
    command += ["--trigger", "1", "--shuffle-partitions", "2", "--member-events", *flags]
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={scratch}".strip()
    places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch), "JAVA_TOOL_OPTIONS": java}
    return GuardedProcess(command, folder / "job.log", environment={**os.environ, **places})


def _await_job(job: GuardedProcess, reader: SinkReader) -> None:
    """Returns at the job's first heartbeat: what happens from then on is news to it, not the past.

    Raises:
        GroupReplayError: it ended, or was not ready in time.
    """
    deadline = time.monotonic() + _JOB_START_SECONDS
    while reader.caught_up_ms is None:
        _need_running(job)
        if time.monotonic() > deadline:
            raise _failure(job, f"the job was not ready within {_JOB_START_SECONDS:.0f} s")
        if reader.find_topics():
            reader.events(0.2)
        else:
            time.sleep(0.2)


def _need_running(job: GuardedProcess) -> None:
    if job.exit_code is not None:
        raise _failure(job, f"the job ended with exit code {job.exit_code}")


def _failure(job: GuardedProcess, what: str) -> GroupReplayError:
    """The error, after the end of the job's log: its folder will be gone when the error is read."""
    from groupreplay.state.display.safe_text import safe_text

    for line in job.tail().splitlines():
        click.echo(f"  job: {safe_text(line, 500)}", err=True)
    return GroupReplayError(what, fix="the end of its log is above; try again, or report it with those lines")


def _watch(seconds: int, stage: Stage, job: GuardedProcess, reader: SinkReader, screen: Screen) -> None:
    """The live view: plays the story, shows every event as it arrives, and waits for the last ones."""
    from groupreplay.streaming.text.event_text import event_name, line_of

    counts: Counter[str] = Counter()

    def show_events() -> None:
        for event in reader.events(0.2):
            counts[event_name(event)] += 1
            screen.line(line_of(event))

    screen.heading(f"{'time (UTC)':<12}  {'':<5}  {'group':<14}  what the job says, read from group-events")
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
        show_events()  # the documents that agreed may have been read before the events beside them
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    screen.heading(f"\n{sum(counts.values())} events: {kinds}")


def _known_to_job(reader: SinkReader) -> dict[str, tuple[str, int]]:
    """State and number of members of each group, by the job's documents."""
    return {
        group: (document.get("state", "?"), document.get("member_count", 0))
        for group, document in reader.documents.items()
    }


def _summarise(stage: Stage, reader: SinkReader, screen: Screen) -> None:
    """The groups as the compacted topic group-states has them, beside what the broker says itself."""
    from groupreplay.streaming.text.terminal import Table, print_table

    columns = ("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION", "PROTOCOL", "MEMBERS")
    rows = [_summary_row(reader.documents[group]) for group in sorted(reader.documents)]
    screen.heading("\nThe groups now, from the compacted topic group-states:")
    print_table(Table(columns, rows), colour=screen.colour)
    asked = stage.groups()
    if asked == _known_to_job(reader):
        screen.note("The broker, when asked, says the same.")
    else:
        told = ", ".join(f"{group} {state} {members}" for group, (state, members) in sorted(asked.items()))
        screen.note(f"The broker, when asked, is ahead of the job: {told}")


def _summary_row(document: Mapping[str, Any]) -> list[str | int | None]:
    names = [member.get("instance_id") or member.get("client_id") for member in document.get("members", ())]
    return [
        document.get("group_id"),
        "simple" if document.get("simple") else document.get("type"),
        document.get("state"),
        document.get("member_count"),
        document.get("generation") if document.get("generation") is not None else document.get("group_epoch"),
        document.get("protocol"),
        " ".join(sorted(str(name) for name in names)),
    ]


def _program() -> str:
    """How this person starts groupreplay: ``make demo`` does so without its being on the PATH."""
    if shutil.which("groupreplay"):
        return "groupreplay"
    here = Path(sys.argv[0])
    return (
        os.path.relpath(here) if here.name == "groupreplay" else f"{sys.executable} -m groupreplay.streaming"
    )


def _leave_running(broker: EmbeddedBroker, screen: Screen) -> None:
    """Lets go of the broker, and says how to use it and how to end it."""
    pid, servers = broker.pid, broker.bootstrap_servers
    broker.detach()
    screen.heading(f"\nThe broker is still running on {servers} (pid {pid}). Look around:")
    for command in ("list", "describe --all-groups --members", "replay", "decode"):
        screen.note(f"  {_program()} {command} --bootstrap-server {servers}")
    screen.heading("End it and remove its data:")
    screen.note(f"  kill {pid} && rm -r {broker.folder}")
