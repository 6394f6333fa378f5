"""What is reported of stops, beside what producers and members have counted, and beside Kafka's own tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupreplay.streaming.sources.capture import CaptureSource
from groupreplay.streaming.sources.recorded_ends import RecordedEnds, recorded_ends
from groupreplay.timeline.lag import Committed, Range, lag_at
from support.job.captures import printed_by
from support.stops.member import Stop

#: Between the append of a record and the answer to the client that has noted it.
_ANSWER_MS = 250
#: A member commits every second, and is 4 times as fast as the producer.
_COMMIT_MS = 1_500


@dataclass
class Tally:
    """How many comparisons held, and the others in words."""

    count: int = 0
    wrong: list[str] = field(default_factory=list)

    def see(self, is_right: bool, words: str) -> None:
        """One comparison."""
        self.count += 1
        if not is_right:
            self.wrong.append(words)

    def __str__(self) -> str:
        return f"{self.count - len(self.wrong)} of {self.count}"


@dataclass
class Score:
    """The comparisons of a run."""

    lag: Tally = field(default_factory=Tally)
    time: Tally = field(default_factory=Tally)
    estimate: Tally = field(default_factory=Tally)
    cost: Tally = field(default_factory=Tally)
    caught_up: Tally = field(default_factory=Tally)
    rebalance: Tally = field(default_factory=Tally)
    stops: int = 0

    def markdown(self, beside_tool: Tally) -> str:
        """The rows of a table."""
        rows = (
            (
                "lag, end and offset equal to `kafka-consumer-groups.sh`, between its two readings",
                beside_tool,
            ),
            ("lag at past moments: the truth is within the bounds", self.lag),
            ("time lag at past moments: the truth is within the bounds", self.time),
            ("time lag: the estimate is within one interval of the truth", self.estimate),
            ("cost of the stop: the records that the producers counted, ± one interval", self.cost),
            ("cost of the rebalance: no more than they counted in the stop", self.rebalance),
            ("caught up: when the member had consumed all, ± one interval and a commit", self.caught_up),
        )
        lines = [f"| {words} | {tally} |" for words, tally in rows if tally.count]
        return "\n".join([f"| {self.stops} stops | right |", "| --- | --- |", *lines])

    def wrong(self) -> Iterator[str]:
        """What did not hold."""
        for tally in (self.lag, self.time, self.estimate, self.cost, self.rebalance, self.caught_up):
            yield from tally.wrong


def score(capture: Path, stops: Sequence[Stop], interval_ms: int) -> Score:
    """The stops of a run, of which everything is in a capture; the ends were recorded at the interval."""
    rows = _history(capture)
    ends, read = recorded_ends(CaptureSource([capture]).open())
    for _ in read.probes:
        pass
    total = Score(stops=len(stops))
    for stop in stops:
        _score_moments(total, stop, ends, interval_ms)
        mine = [row for row in rows if row["group_id"] == stop.group and row["cost"] is not None]
        _score_cost(total, stop, mine, interval_ms)
    return total


def _score_moments(score: Score, stop: Stop, ends: RecordedEnds, interval_ms: int) -> None:
    """The lag in the stop, in records and in time."""
    for share in (0.3, 0.6, 0.9):
        at_ms = round(stop.began_ms + share * (stop.ended_ms - stop.began_ms))
        for partition, offset in stop.offsets.items():
            lag = lag_at(ends.spans(stop.topic, partition), Committed(offset, stop.began_ms), at_ms)
            words = f"{stop.group} {stop.topic}-{partition} at {at_ms}: {lag}"
            truth = [
                max(0, stop.written.end(partition, at_ms + slack) - offset)
                for slack in (-_ANSWER_MS, _ANSWER_MS)
            ]
            score.lag.see(_holds(lag.records, *truth), f"{words}; records {truth}")
            written_ms = stop.written.written_ms(partition, offset)
            if written_ms is not None and written_ms <= at_ms:
                late_ms = at_ms - written_ms
                score.time.see(
                    _holds(lag.time_ms, late_ms - _ANSWER_MS, late_ms + _ANSWER_MS),
                    f"{words}; time {late_ms}",
                )
                near = lag.time_ms is not None and abs(lag.time_ms.estimate - late_ms) <= interval_ms
                score.estimate.see(near, f"{words}; time {late_ms}")


def _score_cost(score: Score, stop: Stop, rows: Sequence[Mapping[str, Any]], interval_ms: int) -> None:
    truth = stop.written.count(stop.began_ms, stop.ended_ms)
    slack = stop.rate * (interval_ms + _COMMIT_MS) / 1000
    quiet = [row["cost"] for row in rows if row["event"] == "no commits" and _overlaps(row["cost"], stop)]
    words = f"{stop}: {truth} records; {quiet}"
    score.cost.see(len(quiet) == 1 and abs(quiet[0]["added"] - truth) <= slack, words)
    late_ms = interval_ms + 2 * _COMMIT_MS
    caught_up_ms = quiet[0]["caught_up_ms"] if quiet else None
    is_near = caught_up_ms is not None and abs(caught_up_ms - stop.caught_up_ms) <= late_ms
    if stop.kind == "away":
        score.caught_up.see(is_near, words)
    for row in rows:
        if row["event"] == "rebalance.completed" and _overlaps(row["cost"], stop):
            within = stop.written.count(row["cost"]["since_ms"], row["cost"]["until_ms"]) + slack
            score.rebalance.see(row["cost"]["added_least"] <= within, f"{stop}: {row['cost']}; {within}")


def _overlaps(cost: Mapping[str, Any], stop: Stop) -> bool:
    return bool(cost["since_ms"] < stop.ended_ms - 1_000 and cost["until_ms"] > stop.began_ms + 1_000)


def _holds(bounds: Range | None, least: int, most: int) -> bool:
    """Whether some value between the two is within the bounds."""
    return bounds is not None and bounds.least <= most and (bounds.most is None or least <= bounds.most)


def _history(capture: Path) -> list[dict[str, Any]]:
    words = ("describe", "--from-file", capture, "--all-groups", "--history", "-o", "json")
    rows: list[dict[str, Any]] = json.loads(printed_by(*words))
    return rows


def beside_tool(before: str, ours: str, after: str, tally: Tally) -> None:
    """Our rows between two readings of Kafka's tool; what either does not know is compared, too."""
    earlier, later = _rows(before), _rows(after)
    for row in json.loads(ours):
        place = row["group_id"], row["topic"], str(row["partition"])
        if place not in earlier or place not in later:
            continue
        first, last = earlier[place], later[place]
        if "-" in (*first, *last) or int(first[1]) > int(last[1]) or int(first[0]) > int(last[0]):
            continue  # not yet committed, or the topic was created again in between
        offset, end = row["offset"], row["log_end_offset"]
        if row["lag"] is None:
            # The commit is of a topic that is no more.
            tally.see(any("deleted" in note for note in row["lag_notes"]), f"{row}")
            continue
        is_between = int(first[0]) <= offset <= int(last[0]) and int(first[1]) <= end <= int(last[1])
        tally.see(is_between and row["lag"] == max(0, end - offset), f"{first} {row} {last}")


def _rows(output: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Offset and end by group, topic and partition."""
    words = [line.split() for line in output.splitlines()]
    return {(w[0], w[1], w[2]): (w[3], w[4]) for w in words if len(w) > 5 and w[2].isdigit()}
