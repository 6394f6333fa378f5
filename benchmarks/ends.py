"""What the record of ends costs the prober: CPU time and bytes a day for 100 000 partitions, asked each 30 seconds.

    python benchmarks/ends.py [--partitions 1000] [--rounds 12] [--made-up 100000] [--page]
    small: --partitions 200 --rounds 4 --made-up 1000

The first row is of questions to a real broker with so many partitions, scaled to 100 000: the cost of the client
grows with their number. The others are of 100 000 partitions in 1 000 topics with made-up answers: what is written is
really written, and its size is that of the broker's log. The second table has what the changes of a day take for each
rounding, without the statements of topics. CPU time is that of the whole process, with the threads of librdkafka.
Fewer, of ``--made-up``, are scaled to as many, with the messages of rounds. ``--page`` writes both to docs/lag.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from groupreplay.streaming.base.clock import now_ms  # noqa: E402
from groupreplay.streaming.config.settings import Cluster, TopicNames  # noqa: E402
from groupreplay.streaming.contract.partition_ends import (  # noqa: E402
    EndsChanges,
    EndsRound,
    PartitionEnds,
)
from groupreplay.streaming.contract.predicted_ends import ROUNDING_PARTS  # noqa: E402
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
from groupreplay.streaming.prober.packed_ends import ROUNDINGS, EndsPacker, Message  # noqa: E402
from support.kafka.clients import make_topics  # noqa: E402
from support.kafka.waiting import wait_until  # noqa: E402

INTERVAL_SECONDS: Final = 30
MANY: Final = 100_000
PARTITIONS_A_TOPIC: Final = 100
ROUNDS_A_DAY: Final = 86_400 // INTERVAL_SECONDS
#: How records come, and the share of the partitions to which they do.
TRAFFIC: Final = (
    ("steady", 0.0),
    ("steady", 0.01),
    ("uneven", 0.01),
    ("steady", 0.1),
    ("uneven", 0.1),
    ("uneven", 0.3),
    ("steady", 1.0),
    ("uneven", 1.0),
    ("decades", 1.0),
    ("bursts", 1.0),
)
KINDS: Final = ("steady", "uneven", "decades", "bursts")
#: More than it takes until ends are rounded enough.
_FIRST_ROUNDS: Final = 40


class MadeUpEnds:
    """Answers about so many partitions, to a share of which records come in each round.

    ``steady``: by the partition's own rate, up to 3 000, as many producers would write; a round varies by the root of
    the rate. ``uneven``: by any number up to twice the rate. ``decades``: the rates of topics are spread over decades
    (log-normal, of two thirds from 6 to 600 in a round), those of a topic's partitions by half; records come each for
    itself (Poisson), and the rate of all rises by a part of a day. ``bursts``: the same, and each round of a
    partition varies by a third (gamma) beside that.
    """

    def __init__(self, kind: str, share: float, count: int) -> None:
        self._random = np.random.default_rng(7)
        self._kind = kind
        layout = TopicLayout("mTIbeXuOSmaqkUYwIp5cAA", tuple(range(PARTITIONS_A_TOPIC)))
        topics = count // PARTITIONS_A_TOPIC
        self._topics = ReadableTopics({f"events.orders-{number:04d}": layout for number in range(topics)})
        self._places = [(name, number) for name in self._topics.layouts for number in layout.led]
        self._rates = self._random.uniform(1, 3_000, count)
        if kind in ("decades", "bursts"):
            of_topics = self._random.lognormal(np.log(60), np.log(10), topics)
            self._rates = of_topics.repeat(PARTITIONS_A_TOPIC) * self._random.lognormal(0, 0.4, count)
        self._rates *= self._random.permutation(np.arange(count) < round(share * count))
        self._ends = self._random.integers(0, 10**9, count)
        # Retention removes whole segments, now and then.
        self._starts = (self._ends // 2).tolist()
        self._round = 0

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
        self._ends = self._ends + self._grown()
        self._round += 1
        answers = zip(self._places, self._starts, self._ends.tolist(), strict=True)
        return {place: PartitionEnds(start, end, end) for place, start, end in answers}

    def _grown(self) -> np.typing.NDArray[np.int64]:
        rates, count = self._rates, len(self._rates)
        if self._kind in ("steady", "uneven"):
            even = self._kind == "steady"
            drawn = self._random.normal(rates, rates**0.5) if even else self._random.uniform(0, 2 * rates)
            return np.where(rates > 0, np.maximum(np.rint(drawn), 1), 0).astype(np.int64)
        rates = rates * (1 + 0.4 * np.sin(2 * np.pi * self._round / ROUNDS_A_DAY))
        if self._kind == "bursts":
            rates = rates * self._random.gamma(9, 1 / 9, count)
        records: np.typing.NDArray[np.int64] = self._random.poisson(rates)
        return records


@contextmanager
def probes_topic(
    broker: EmbeddedBroker, name: str
) -> Iterator[tuple[Callable[[EndsRecorder], None], Path, EndsPacker]]:
    """What takes and writes a round, the folder of the topic's log, and how rounds are packed."""
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    ensure_topics(Connection(cluster), TopicNames(probes=name), only=("probes",))
    publisher = Publisher(cluster)
    packer = EndsPacker(roundings=ROUNDINGS)

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


def writing(broker: EmbeddedBroker, kind: str, changing: float, count: int, rounds: int) -> str:
    """The row of made-up ends."""
    scale = MANY / count
    with probes_topic(broker, f"probes-{round(100 * changing)}-{kind}") as (take, folder, packer):
        packer.bytes_a_day = round(packer.bytes_a_day / scale)
        seconds, size = measured(take, MadeUpEnds(kind, changing, count).recorder(), folder, rounds)
    share, day = scale * seconds / INTERVAL_SECONDS, scale * size * ROUNDS_A_DAY / 1e6
    how = f", {kind}" if changing else ""
    rounding = f"{packer.rounding:g} intervals" if packer.rounding else "exact"
    return (
        f"| comparing and writing, {changing:.0%} change in a round{how} "
        f"| {share:.1%} | {day:,.0f} MB | {rounding} |"
    )


def curve(kind: str, count: int, rounds: int) -> str:
    """What the changes of all partitions take for each rounding, as the messages have them."""
    cells = []
    for rounding in ROUNDINGS:
        packer, recorder = EndsPacker(roundings=(rounding,)), MadeUpEnds(kind, 1.0, count).recorder()
        sizes = list[int]()

        def write(messages: Sequence[Message | EndsRound], sizes: list[int] = sizes) -> None:
            sizes.extend(len(message.packed) for message in messages if isinstance(message, EndsChanges))

        for _ in range(_FIRST_ROUNDS + rounds):
            take_round(recorder, write, packer)
        cells.append(f"{MANY / count * sum(sizes[-rounds:]) / rounds * ROUNDS_A_DAY / 1e6:,.0f} MB")
    return f"| {kind} | {' | '.join(cells)} |"


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
        for kind, changing in TRAFFIC:
            lines.append(writing(broker, kind, changing, asked.made_up, asked.rounds))
            show_progress(lines[-1])
    seconds = [f"± {rounding / ROUNDING_PARTS * INTERVAL_SECONDS / 2:g} s" for rounding in ROUNDINGS[1:]]
    lines += [
        "",
        f"| all 100 000 change in a round | exact | {' | '.join(seconds)} |",
        "| --- | --- | " + " | ".join("---" for _ in seconds) + " |",
    ]
    for kind in KINDS:
        lines.append(curve(kind, asked.made_up, asked.rounds))
        show_progress(lines[-1])
    table = "\n".join(lines)
    print(table)
    if asked.page:
        put("ends", table, ROOT / "docs" / "lag.md")


if __name__ == "__main__":
    main()
