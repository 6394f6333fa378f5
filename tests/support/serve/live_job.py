"""A job on a real broker, the members of a group, and the site that shows them: each a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, running_job, topic_flags, topic_names
from support.kafka.clients import make_topics, produce
from support.kafka.polled_members import PolledMembers
from support.pictures.report_pages import OpenedPage
from support.serve.serve_process import serving

PARTITIONS: Final = 4


class LiveJob:
    """The job (with these flags), the members, and the site at ``address``; ``name`` is part of all names."""

    def __init__(
        self, broker: EmbeddedBroker, folder: Path, exit_: ExitStack, name: str, *flags: str
    ) -> None:
        self.servers, self.group, self.topic = broker.bootstrap_servers, f"{name}-orders", f"{name}-topic"
        topics = topic_names(name)
        make_topics(self.servers, {self.topic: PARTITIONS})
        self.members = PolledMembers(self.servers, timeout_ms=240_000)
        exit_.callback(self.members.close)
        self.job: RunningJob = exit_.enter_context(
            running_job(self.servers, folder / "checkpoint", topics, "--probe-interval", "1", *flags)
        )
        site = ("--history-file", str(folder / "history.db"), *_site_flags(topic_flags(topics)))
        self.server, address = exit_.enter_context(serving(self.servers, folder / "serve.log", *site))
        self.address = f"http://{address}"

    def wait(self, page: OpenedPage, expression: str) -> None:
        """The same until an expression of the page is true."""
        self.wait_until(lambda: page.value(expression))

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Polls the members until a condition is true; they have records to commit."""

        def checked() -> bool:
            for number in range(PARTITIONS):
                produce(self.servers, self.topic, [(None, b"order")], number)
            assert self.job.process.exit_code is None, self.job.process.tail()
            assert self.server.exit_code is None, self.server.tail()
            return bool(condition())

        self.members.wait_until(checked)


def _site_flags(flags: list[str]) -> list[str]:
    """Those that ``serve`` has, too: it does not read the dead letters."""
    return [word for at, word in enumerate(flags) if "dead-letters" not in flags[at - at % 2]]
