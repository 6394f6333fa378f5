"""What simulate writes in old formats, as the classes of Kafka 3.9.1 and 4.3.1 read it."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest

from groupreplay.codecs import (
    PROTOCOL_VERSIONS,
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitValue,
    Value,
    encode_key,
    encode_value,
)
from groupreplay.codecs.kafka_json import to_json
from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import SimulationPlan, WrittenRecord, simulate
from groupreplay.streaming.local.jars import jar_paths
from support.kafka.kafka_classes import KafkaClasses, compiled

pytestmark = pytest.mark.broker

#: Reads a value with the older coordinator's own code, and gives its fields as JSON.
_READER: Final = """
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Iterator;
import kafka.common.OffsetAndMetadata;
import kafka.coordinator.group.GroupMetadata;
import kafka.coordinator.group.GroupMetadataManager;
import kafka.coordinator.group.MemberMetadata;
import org.apache.kafka.common.utils.Time;

public class Reader {
    private final ObjectMapper mapper = new ObjectMapper();

    public String offset(byte[] value) {
        OffsetAndMetadata read = GroupMetadataManager.readOffsetMessageValue(ByteBuffer.wrap(value));
        return mapper.createObjectNode()
            .put("offset", read.offset())
            .put("leader_epoch", ((Integer) read.leaderEpoch().orElse(Integer.valueOf(-1))).intValue())
            .put("committed", read.commitTimestamp())
            .put("expires", read.expireTimestamp().isEmpty()
                ? -1L : ((Long) read.expireTimestamp().get()).longValue()).toString();
    }

    public String group(byte[] value) {
        GroupMetadata read = GroupMetadataManager.readGroupMessageValue("g", ByteBuffer.wrap(value), Time.SYSTEM);
        ObjectNode json = mapper.createObjectNode()
            .put("generation", read.generationId())
            .put("since", read.currentStateTimestampOrDefault());
        ArrayNode members = json.putArray("members");
        Iterator all = scala.jdk.javaapi.CollectionConverters.asJava(read.allMemberMetadata()).iterator();
        while (all.hasNext()) {
            MemberMetadata one = (MemberMetadata) all.next();
            members.addArray().add(one.memberId()).add((String) one.groupInstanceId().getOrElse(new Nothing()))
                .add(one.rebalanceTimeoutMs()).add(one.sessionTimeoutMs())
                .add(Base64.getEncoder().encodeToString(one.assignment()));
        }
        return json.toString();
    }

    static class Nothing extends scala.runtime.AbstractFunction0 {
        public Object apply() { return null; }
    }
}
"""


def records(release: str) -> list[tuple[Key, Value | None]]:
    """The log of static members, who commit with a retention time in every second release."""
    own = {"retention.time.ms": 60_000 if PROTOCOL_VERSIONS.index(release) % 2 else -1}
    plan = SimulationPlan(
        scenario=SCENARIOS["rolling-restart-3-static-eager"].with_client(own),
        groups=2,
        duration_ms=900_000,
        seed=1,
        partitions=1,
        settings=Settings(scala=True, inter_broker_protocol_version=release),
    )
    (ids,) = plan.group_ids()
    return [(one.key, one.value) for one in simulate(plan, ids) if isinstance(one, WrittenRecord)]


@pytest.mark.parametrize("release", PROTOCOL_VERSIONS)
def test_the_serde_of_the_newer_coordinator(release: str, kafka: KafkaClasses) -> None:
    """``GroupCoordinatorRecordSerde`` reads every field, and writes the same bytes."""
    log = records(release)
    ours = [(encode_key(key), None if value is None else encode_value(value)) for key, value in log]
    readings = kafka.read(ours)
    assert [one.json for one in readings] == [to_json(key, value) for key, value in log]
    assert [(one.key, one.value) for one in readings] == ours


def test_the_older_coordinator() -> None:
    """``GroupMetadataManager`` of 3.9.1; of version 0 it takes the session timeout for both."""
    with compiled(jar_paths("broker-3.9.1"), _READER, "Reader") as reader:
        for release in PROTOCOL_VERSIONS:
            for key, value in records(release):
                if isinstance(value, GroupMetadataValue):
                    assert isinstance(key, GroupMetadataKey)
                    read = json.loads(reader.group(bytearray(encode_value(value))))
                    read["members"].sort()
                    assert read == _group(value)
                elif isinstance(value, OffsetCommitValue):
                    assert json.loads(reader.offset(bytearray(encode_value(value)))) == {
                        "offset": value.offset,
                        "leader_epoch": value.leader_epoch,
                        "committed": value.commit_timestamp_ms,
                        "expires": value.expire_timestamp_ms,
                    }


def _group(value: GroupMetadataValue) -> dict[str, Any]:
    return {
        "generation": value.generation,
        "since": value.current_state_timestamp_ms,
        "members": sorted(
            [
                one.member_id,
                one.group_instance_id,
                one.session_timeout_ms if value.version == 0 else one.rebalance_timeout_ms,
                one.session_timeout_ms,
                base64.b64encode(one.assignment).decode(),
            ]
            for one in value.members
        ),
    }
