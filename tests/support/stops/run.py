"""A run: many groups of one broker stop, while the ends of their topics are recorded and Kafka's tool is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.captures import GROUPREPLAY, printed_by
from support.kafka.kafka_classes import Jvm, broker_jars
from support.kafka.kafka_tool import TOOL
from support.stops.feed import Feed
from support.stops.member import PlayedGroup
from support.stops.scores import Score, Tally, beside_tool, score

KINDS = ("plain", "transactional", "compacted", "recreated", "plain", "transactional")
INTERVAL_SECONDS = 5


def played(
    folder: Path,
    show: Callable[[str], None],
    *,
    kinds: Sequence[str] = KINDS,
    stops: Sequence[str] = ("away", "stuck", "away", "stuck", "away"),
    seconds: float = 40.0,
    pause_seconds: float = 20.0,
    rate: int = 20,
) -> tuple[Score, Tally]:
    """Plays a classic and a KIP-848 group for each kind of topic; returns how right the reports of them are."""
    tally = Tally()
    with EmbeddedBroker(overrides={"log.cleaner.backoff.ms": 1_000}) as broker:
        servers = broker.bootstrap_servers
        feeds = {
            topic: Feed(servers, topic, kind, rate)
            for number, kind in enumerate(kinds)
            for topic in (f"{kind}-{number}-classic", f"{kind}-{number}-consumer")
        }
        groups = [
            PlayedGroup(feed, f"g-{topic}", topic.rsplit("-", 1)[1], show) for topic, feed in feeds.items()
        ]
        words = [*GROUPREPLAY, "probe", "--bootstrap-server", servers, "--interval", "2"]
        words += ["--ends-interval", str(INTERVAL_SECONDS)]
        with GuardedProcess(words, folder / "prober.log"):
            _play(groups, lambda group: group.play(list(stops), seconds, pause_seconds), servers, tally)
            # What is written last is known after the next round.
            time.sleep(3 * INTERVAL_SECONDS)
        for feed in feeds.values():
            feed.close()
        capture = folder / "stops.parquet"
        printed_by("capture", "--bootstrap-server", servers, "-o", capture)
    all_stops = [stop for group in groups for stop in group.stops]
    return score(capture, all_stops, 1_000 * INTERVAL_SECONDS), tally


def _play(
    groups: Sequence[PlayedGroup], play: Callable[[PlayedGroup], None], servers: str, tally: Tally
) -> None:
    """All groups at the same time; meanwhile Kafka's tool is asked again and again."""
    with Jvm(broker_jars()) as jvm, ThreadPoolExecutor(len(groups)) as pool:
        tool = jvm.make(TOOL, "Tool")
        plays = [pool.submit(play, group) for group in groups]
        while running := [each for each in plays if not each.done()]:
            _compare(tool, servers, tally)
            time.sleep(5 if running else 0)
        for each in plays:
            each.result()


def _compare(tool: object, servers: str, tally: Tally) -> None:
    words = f"--bootstrap-server {servers} --describe --all-groups --timeout 60000"
    before = tool.run(words)  # type: ignore[attr-defined]
    ours = printed_by("lag", "--bootstrap-server", servers, "-o", "json")
    after = tool.run(words)  # type: ignore[attr-defined]
    beside_tool(before, ours, after, tally)
