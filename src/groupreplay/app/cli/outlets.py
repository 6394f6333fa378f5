"""Flags of the ways out of events beside the terminal, and the outlets that they name.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.command import is_typed
from groupreplay.app.cli.flags import ClusterFlags, public_url_flag, sink_flags, topic_flags
from groupreplay.app.cli.options import file_flag, flag, group, switch

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import Cluster, TopicNames
    from groupreplay.streaming.delivery.outlet import RunningOutlet
    from groupreplay.streaming.delivery.webhook import Webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFlags:
    """A receiver over HTTP; ``url`` None: none is named."""

    url: str | None = None
    form: str = "cloudevents"
    secret_file: Path | None = None

    def outlet(self, wanted: Callable[[bytes], bool], public_url: str | None) -> Webhook | None:
        """The outlet to the receiver; None: none is named.

        Raises:
            UsageError: a flag has no meaning without a receiver.
            GroupReplayError: the address or the secret cannot be used.
        """
        if self.url is None:
            names = {"webhook_format": "--webhook-format", "webhook_secret_file": "--webhook-secret-file"}
            for key, name in names.items():
                if is_typed(key):
                    raise click.UsageError(f"{name} has no meaning without --webhook.")
            return None
        from groupreplay.app.text.webhook_formats import FORMATS
        from groupreplay.streaming.delivery.webhook import Receiver, Webhook

        if self.form == "pagerduty" and self.secret_file is None:
            raise click.UsageError(
                "--webhook-format pagerduty needs its routing key: --webhook-secret-file FILE."
            )
        receiver = Receiver(url=self.url, form=FORMATS[self.form](public_url), secret_file=self.secret_file)
        return Webhook(receiver=receiver, wanted=wanted)


def webhook_flags() -> Any:
    """A field with the ``WebhookFlags``."""
    return group(
        WebhookFlags,
        url=flag(
            "Also send each event to this address (POST), at least once, and again when it fails.",
            "--webhook",
            metavar="URL",
        ),
        form=flag(
            "What the receiver takes: CloudEvents (one in each request), incidents of PagerDuty, messages of Slack.",
            "--webhook-format",
            type=click.Choice(("cloudevents", "pagerduty", "slack")),
            default="cloudevents",
        ),
        secret_file=file_flag(
            "File with the bearer token, or the routing key of PagerDuty; {secret} in the address stands for it.",
            "--webhook-secret-file",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """The ways out of ``watch`` beside the terminal."""

    jsonl: Path | None = None
    jsonl_bytes: int = 0
    webhook: WebhookFlags = WebhookFlags()
    public_url: str | None = None
    sink: bool = False
    sink_cluster: ClusterFlags = ClusterFlags()
    topics: TopicNames | None = None

    def outlets(self, wanted: Callable[[bytes], bool], source: Cluster) -> list[RunningOutlet]:
        """Those that are named, not started. ``wanted``: the events for file and receiver; topics get all.

        Raises:
            UsageError: a flag has no meaning without another one.
            GroupReplayError: a file, the address or the secret cannot be used.
        """
        outlets: list[RunningOutlet] = []
        if (webhook := self.webhook.outlet(wanted, self.public_url)) is not None:
            outlets.append(webhook)
        if self.jsonl is not None:
            from groupreplay.streaming.delivery.event_file import EventFile

            outlets.append(EventFile(self.jsonl, wanted, self.jsonl_bytes))
        if self.sink:
            from groupreplay.streaming.config.settings import TopicNames
            from groupreplay.streaming.delivery.result_topics import ResultTopics

            outlets.append(ResultTopics(self.sink_cluster.find() or source, self.topics or TopicNames()))
        return outlets


def output_flags() -> Any:
    """A field with the ``OutputFlags``."""
    return group(
        OutputFlags,
        jsonl=file_flag("Also write each event to this file, one CloudEvent a line, each once.", "--jsonl"),
        jsonl_bytes=flag(
            "A larger --jsonl file becomes FILE.1; four such files are kept.",
            "--jsonl-bytes",
            type=click.IntRange(min=1),
            default=100 << 20,
            metavar="BYTES",
        ),
        webhook=webhook_flags(),
        public_url=public_url_flag(
            "Address of the live pages as others reach them, for links in what is sent."
        ),
        sink=switch("Also write the topics of events and of documents as run does; nothing else is written."),
        sink_cluster=sink_flags(),
        topics=topic_flags("events", "states"),
    )
