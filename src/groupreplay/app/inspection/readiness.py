"""Whether groups may move to another protocol: what the log has of their members, and the answer as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.app.text.tables import Cell, Table
from groupreplay.codecs import GroupMetadataValue, Malformed, Skipped, decode_key, decode_value
from groupreplay.codecs.classic import GroupMetadataKey
from groupreplay.state.policy.context import ASSUMED_SESSIONS
from groupreplay.timeline.protocol_faults import Target, known_faults
from groupreplay.timeline.readiness import WORST_FIRST, BrokerFacts, Readiness, Verdict, readiness

if TYPE_CHECKING:
    from groupreplay.state import Context
    from groupreplay.streaming.kafka.clients import Connection

_TYPE: Final = GroupMetadataKey.KEY_TYPE.to_bytes(2, "big")
_MAX_SIZE: Final = "group.consumer.max.size"
_POLICY: Final = "group.consumer.migration.policy"


@dataclass(slots=True)
class LastMembers:
    """The last record of each classic group that has members; the state keeps no assignment as the client wrote it."""

    until_ms: int | None = None
    of_group: dict[str, GroupMetadataValue] = field(default_factory=dict)

    def noted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, each of which is noted."""
        for batch in batches:
            self._note(batch)
            yield batch

    def _note(self, batch: pa.RecordBatch) -> None:
        chosen = pc.equal(pc.binary_slice(batch["key"], 0, len(_TYPE)), _TYPE)
        if self.until_ms is not None:
            chosen = pc.and_(chosen, pc.less_equal(batch["timestamp"], self.until_ms))
        rows = batch.filter(chosen)
        for raw_key, raw_value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
            key = decode_key(raw_key)
            if isinstance(key, Skipped | Malformed):
                continue
            value = decode_value(key, raw_value)
            if value is None or isinstance(value, Skipped | Malformed):
                self.of_group.pop(key.group, None)
            elif isinstance(value, GroupMetadataValue) and value.members:
                self.of_group[key.group] = value


def broker_facts(context: Context, connection: Connection | None, groups: Collection[str]) -> BrokerFacts:
    """What a live cluster answers, also about these groups, and the release and the sessions of the context."""
    answer, own = dict[str, str](), dict[str, dict[str, int]]()
    if connection is not None:
        from groupreplay.streaming.kafka.group_admin import GroupAdmin

        answer = connection.broker_settings((_MAX_SIZE, _POLICY))
        own = GroupAdmin(connection).own_settings(groups)
    size = answer.get(_MAX_SIZE, "")
    return BrokerFacts(
        release=context.broker_release,
        max_size=int(size) if size.isdigit() else None,
        policy=answer.get(_POLICY),
        session=context.sessions.get(Target.CONSUMER.value, ASSUMED_SESSIONS),
        own_settings=own,
    )


def all_readiness(
    groups: Sequence[Mapping[str, Any]], last: LastMembers, to: Target, brokers: BrokerFacts
) -> list[Readiness]:
    """The verdict on each group, the worst first, then by name."""
    answers = [readiness(group, last.of_group.get(group["group_id"]), to, brokers) for group in groups]
    return sorted(answers, key=lambda answer: (WORST_FIRST[answer.verdict], answer.group_id))


def readiness_table(answers: Sequence[Readiness]) -> Table:
    """One row a finding; a group without one has a row all the same."""
    rows: list[tuple[Cell, ...]] = []
    for answer in answers:
        head = (answer.group_id, answer.type, answer.state, answer.members, answer.verdict.value)
        why: list[tuple[Cell, Cell]] = [(each.fact, each.do or None) for each in answer.findings]
        rows += [(*head, *reason) for reason in why or [(None, None)]]
    return Table(("GROUP", "TYPE", "STATE", "#MEMBERS", "VERDICT", "WHY", "DO"), rows)


def summary_lines(answers: Sequence[Readiness], to: Target, brokers: BrokerFacts) -> list[str]:
    """The numbers of all groups, what was assumed of the brokers, and the faults that theirs may have."""
    counts = Counter(answer.verdict for answer in answers)
    lines = [", ".join(f"{counts[verdict]} {verdict.words}" for verdict in Verdict if counts[verdict])]
    assumed = [] if brokers.release else ["they run Kafka 4.0 or later (--broker-release)"]
    if to is Target.CONSUMER:
        assumed += [] if brokers.policy else [f"{_POLICY} is bidirectional"]
        assumed += [] if brokers.max_size else [f"no group exceeds {_MAX_SIZE}"]
        is_asked = all(each.group_id in brokers.own_settings for each in answers)
        assumed += [] if is_asked else ["no group has set consumer.session.timeout.ms for itself"]
    if assumed:
        lines.append(f"assumed of the brokers: {'; '.join(assumed)}")
    for fault in known_faults(to, brokers.release):
        lines.append(f"{fault.issue}, Kafka {fault.releases}: {fault.effect}")
    return lines
