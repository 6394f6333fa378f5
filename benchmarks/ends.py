"""What the record of ends costs the prober: CPU time and bytes a day for 100 000 partitions, asked each 30 seconds.

    python benchmarks/ends.py [--partitions 1000] [--rounds 12] [--made-up 100000] [--page]
    small: --partitions 200 --rounds 4 --made-up 1000

The first row is of questions to a real broker with so many partitions, scaled to 100 000: the cost of the client
grows with their number. The others are of 100 000 partitions in 1 000 topics with made-up answers, of which a share
changes in each round, evenly or not: what is written is really written, and its size is that of the broker's log. CPU
time is that of the whole process, with the threads of librdkafka. Fewer, of ``--made-up``, are scaled to as many, with
the messages of rounds. ``--page`` writes the table to docs/lag.md.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from groupreplay.streaming.base.clock import now_ms  # noqa: E402
from groupreplay.streaming.config.settings import Cluster, TopicNames  # noqa: E402
from groupreplay.streaming.contract.partition_ends import PartitionEnds  # noqa: E402
from groupreplay.streaming.contract.probe_messages import encode_message  # noqa: E402
from groupreplay.streaming.kafka.clients import Connection  # noqa: E402
from groupreplay.streaming.kafka.log_ends import (  # noqa: E402
    Place,
    ReadableTopics,
    TopicLayout,
    read_ends,
    readable_topics,
)
from groupreplay.streaming.kafka.output_topics import ensure_topics  # noqa: E402
from groupreplay.streaming.kafka.publisher import Publisher  # noqa: E402
from groupreplay.streaming.local.broker import EmbeddedBroker  # noqa: E402
from groupreplay.streaming.prober.ends import EndsRecorder, ends_recorder, take_round  # noqa: E402
from groupreplay.streaming.prober.packed_ends import EndsPacker  # noqa: E402
from support.kafka.clients import make_topics  # noqa: E402
from support.kafka.waiting import wait_until  # noqa: E402

INTERVAL_SECONDS: Final = 30
MANY: Final = 100_000
PARTITIONS_A_TOPIC: Final = 100
ROUNDS_A_DAY: Final = 86_400 // INTERVAL_SECONDS
#: Shares of the partitions that change in a round, and whether they grow evenly.
CHANGES: Final = (
    (0.0, True),
    (0.01, True),
    (0.01, False),
    (0.1, True),
    (0.1, False),
    (0.3, False),
    (1.0, True),
    (1.0, False),
)
#: More than it takes until ends are rounded enough.
_FIRST_ROUNDS: Final = 24


class MadeUpEnds:
    """Answers about so many partitions, of which a share changes in each round.

    Evenly: by the partition's own rate, as many producers would write; a round varies by the root of the rate.
    Unevenly: by any number up to twice the rate.
    """

    def __init__(self, share: float, *, evenly: bool, count: int) -> None:
        self._random = random.Random(7)
        self._evenly = evenly
        layout = TopicLayout("mTIbeXuOSmaqkUYwIp5cAA", tuple(range(PARTITIONS_A_TOPIC)))
        numbers = range(count // PARTITIONS_A_TOPIC)
        self._topics = ReadableTopics({f"events.orders-{number:04d}": layout for number in numbers})
        self._places = [(name, number) for name in self._topics.layouts for number in layout.led]
        self._busy = self._random.sample(self._places, round(share * count))
        self._rates = {place: self._random.randrange(1, 3_000) for place in self._busy}
        self._ends = {place: self._random.randrange(10**9) for place in self._places}
        # Retention removes whole segments, now and then.
        self._starts = {place: end // 2 for place, end in self._ends.items()}

    def recorder(self) -> EndsRecorder:
        """A recorder that gets these answers."""
        return EndsRecorder(
            topics=lambda _: self._topics,
            ends=lambda places, starts: self._answers(),
            cluster_id="mTIbeXuOSmaqkUYwIp5cAA",
            clock=now_ms,
            interval_ms=1_000 * INTERVAL_SECONDS,
        )

    def _answers(self) -> dict[Place, PartitionEnds]:
        for place in self._busy:
            rate = self._rates[place]
            grown = self._random.gauss(rate, rate**0.5) if self._evenly else self._random.random() * 2 * rate
            self._ends[place] += max(1, round(grown))
        return {place: PartitionEnds(self._starts[place], end, end) for place, end in self._ends.items()}


@contextmanager
def probes_topic(
    broker: EmbeddedBroker, name: str
) -> Iterator[tuple[Callable[[EndsRecorder], None], Path, EndsPacker]]:
    """What takes and writes a round, the folder of the topic's log, and how rounds are packed."""
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    ensure_topics(Connection(cluster), TopicNames(probes=name), only=("probes",))
    publisher = Publisher(cluster)

    packer = EndsPacker()

    def take(recorder: EndsRecorder) -> None:
        take_round(recorder, lambda messages: publisher.publish(name, map(encode_message, messages)), packer)

    # A broker may be told of a topic after its creation was acknowledged.
    wait_until(lambda: list(broker.folder.rglob(f"{name}-0")))
    (folder,) = broker.folder.rglob(f"{name}-0")
    yield take, folder, packer


def measured(
    take: Callable[[EndsRecorder], None], recorder: EndsRecorder, folder: Path, rounds: int
) -> tuple[float, float]:
    """CPU seconds and bytes of a round, of so many after those in which the prober learns how ends grow."""
    for _ in range(_FIRST_ROUNDS):
        take(recorder)
    before, began = _size(folder), time.process_time()
    for _ in range(rounds):
        take(recorder)
    return (time.process_time() - began) / rounds, (_size(folder) - before) / rounds


def _make_partitions(connection: Connection, partitions: int) -> None:
    """So many partitions, which have leaders that answer: these refuse for a while."""
    servers = connection.cluster.bootstrap_servers
    make_topics(servers, {f"t-{n}": 100 for n in range(-(-partitions // 100))})

    def answering() -> int:
        layouts = readable_topics(connection).layouts
        return len(read_ends(connection, [(name, n) for name, layout in layouts.items() for n in layout.led]))

    wait_until(lambda: answering() >= partitions)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def asking(partitions: int, rounds: int) -> str:
    """The row of a real broker."""
    with EmbeddedBroker() as broker:
        connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
        recorder = ends_recorder(
            connection,
            cluster_id=connection.cluster_id(),
            clock=now_ms,
            interval_seconds=INTERVAL_SECONDS,
            left_out={"probes-real"},
        )
        with probes_topic(broker, "probes-real") as (take, folder, _):
            _make_partitions(connection, partitions)
            seconds, _ = measured(take, recorder, folder, rounds)
    share = seconds * MANY / partitions / INTERVAL_SECONDS
    return f"| asking a broker for {partitions:,} partitions, scaled | {share:.1%} | | |"


def writing(broker: EmbeddedBroker, changing: float, *, evenly: bool, count: int, rounds: int) -> str:
    """The row of made-up ends."""
    kind, scale = "evenly" if evenly else "unevenly", MANY / count
    with probes_topic(broker, f"probes-{round(100 * changing)}-{kind}") as (take, folder, packer):
        packer.bytes_a_day = round(packer.bytes_a_day / scale)
        ends = MadeUpEnds(changing, evenly=evenly, count=count)
        seconds, size = measured(take, ends.recorder(), folder, rounds)
    share, day = scale * seconds / INTERVAL_SECONDS, scale * size * ROUNDS_A_DAY / 1e6
    how = f", {kind}" if changing else ""
    rounding = f"{packer.rounding:g} intervals" if packer.rounding else "exact"
    return (
        f"| comparing and writing, {changing:.0%} change in a round{how} "
        f"| {share:.1%} | {day:,.0f} MB | {rounding} |"
    )


def main() -> None:
    """Measures and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--partitions", type=int, default=1_000, help="partitions of the real broker")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument(
        "--made-up", type=int, default=MANY, help="partitions of the other rows; fewer are scaled"
    )
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    lines = [
        "| 100 000 partitions, each 30 s | CPU, of one core | a day | ends are rounded to |",
        "| --- | --- | --- | --- |",
        asking(asked.partitions, asked.rounds),
    ]
    show_progress(lines[-1])
    with EmbeddedBroker() as broker:
        for changing, evenly in CHANGES:
            lines.append(writing(broker, changing, evenly=evenly, count=asked.made_up, rounds=asked.rounds))
            show_progress(lines[-1])
    table = "\n".join(lines)
    print(table)
    if asked.page:
        put("ends", table, ROOT / "docs" / "lag.md")


if __name__ == "__main__":
    main()
