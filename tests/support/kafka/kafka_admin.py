"""Descriptions of groups from Kafka's own Admin client; librdkafka's client has no epochs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.kafka.kafka_classes import compiled

#: Jackson writes the private fields of Kafka's descriptions, and enums as the tools print them.
SOURCE = """
import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.datatype.jdk8.Jdk8Module;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

public class AdminOracle {
    private final ObjectMapper mapper = new ObjectMapper();
    private AdminClient admin;

    public void open(String servers) {
        mapper.registerModule(new Jdk8Module());
        mapper.setVisibility(PropertyAccessor.ALL, JsonAutoDetect.Visibility.NONE);
        mapper.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
        mapper.enable(SerializationFeature.WRITE_ENUMS_USING_TO_STRING);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        admin = AdminClient.create(settings);
    }

    public void close() {
        admin.close();
    }

    private KafkaFuture asked(String name, String kind) {
        Collection names = Collections.singleton(name);
        Map answers;
        if (kind.equals("share")) answers = admin.describeShareGroups(names).describedGroups();
        else if (kind.equals("streams")) answers = admin.describeStreamsGroups(names).describedGroups();
        else if (kind.equals("classic")) answers = admin.describeClassicGroups(names).describedGroups();
        else answers = admin.describeConsumerGroups(names).describedGroups();
        return (KafkaFuture) answers.get(name);
    }

    public String describe(Map kinds) throws Exception {
        Map found = new HashMap();
        for (Iterator i = kinds.keySet().iterator(); i.hasNext();) {
            String name = (String) i.next();
            found.put(name, asked(name, (String) kinds.get(name)));
        }
        for (Iterator i = found.entrySet().iterator(); i.hasNext();) {
            Map.Entry entry = (Map.Entry) i.next();
            try {
                entry.setValue(((KafkaFuture) entry.getValue()).get());
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof GroupIdNotFoundException)) throw e;
                i.remove();
            }
        }
        return mapper.writeValueAsString(found);
    }

    public String offsets(List groups) throws Exception {
        Map specs = new HashMap();
        for (Iterator i = groups.iterator(); i.hasNext();)
            specs.put(i.next(), new ListConsumerGroupOffsetsSpec());
        return mapper.writeValueAsString(admin.listConsumerGroupOffsets(specs).all().get());
    }

    public void deleteOffset(String group, String topic, int partition) throws Exception {
        admin.deleteConsumerGroupOffsets(group, Collections.singleton(new TopicPartition(topic, partition)))
            .all().get();
    }
}
"""


class KafkaAdmin:
    """An Admin client of one broker, for groups of every type."""

    def __init__(self, oracle: Any, servers: str) -> None:
        self._oracle = oracle
        oracle.open(servers)

    def close(self) -> None:
        self._oracle.close()

    def describe(self, types: Mapping[str, str], *, offsets: bool = False) -> dict[str, dict[str, Any]]:
        """Group -> state, epochs, members and, on request, committed offsets; groups that do not exist are left out.

        Groups are requested by name and type. Consumer groups of both protocols have the type ``consumer``,
        because they can be converted. ``classic`` is for other groups of the classic protocol, such as those
        of Connect. Share groups have no committed offsets.
        """
        from py4j.java_collections import ListConverter, MapConverter

        # The converters need the gateway's client, which every Java object knows.
        asked = MapConverter().convert(dict(types), self._oracle._gateway_client)
        descriptions = json.loads(self._oracle.describe(asked))
        found = {name: _described(one, types[name]) for name, one in descriptions.items()}
        if offsets:
            committing = [name for name in found if types[name] != "share"]
            names = ListConverter().convert(committing, self._oracle._gateway_client)
            for name, committed in json.loads(self._oracle.offsets(names)).items():
                found[name]["offsets"] = {place: at["offset"] for place, at in committed.items() if at}
        return found

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        """Deletes a committed offset of a group without members."""
        self._oracle.deleteOffset(group, topic, partition)


def _described(group: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "type": group.get("type", kind).lower(),
        "state": group.get("groupState") or group["state"],
        "protocol": group.get("partitionAssignor"),
        "group_epoch": group.get("groupEpoch"),
        "target_epoch": group.get("targetAssignmentEpoch"),
        "members": [
            {
                "member_id": one["memberId"],
                "instance_id": one.get("groupInstanceId") or one.get("instanceId"),
                "client_id": one["clientId"],
                "client_host": one.get("host") or one["clientHost"],
                "epoch": one["memberEpoch"],
                "partitions": _partitions(one["assignment"]),
            }
            for one in group["members"]
        ],
    }


def _partitions(assignment: dict[str, Any]) -> dict[str, list[int]]:
    """The partitions by topic, or the tasks of a streams member by subtopology and role."""
    held: dict[str, list[int]] = {}
    for one in assignment.get("topicPartitions", ()):
        held.setdefault(one["topic"], []).append(one["partition"])
    for role, name in (("activeTasks", ""), ("standbyTasks", " (standby)"), ("warmupTasks", " (warmup)")):
        held |= {one["subtopologyId"] + name: one["partitions"] for one in assignment.get(role, ())}
    return held


@contextmanager
def kafka_admin(jars: Sequence[Path], servers: str) -> Iterator[KafkaAdmin]:
    """An Admin client in a JVM that ends with the context."""
    with compiled(jars, SOURCE, "AdminOracle") as oracle:
        yield KafkaAdmin(oracle, servers)


def by_broker(group: dict[str, Any]) -> dict[str, Any]:
    """The broker's description in the form that is compared."""
    classic = group["type"] == "classic"
    members = [
        {**one, "partitions": {topic: sorted(held) for topic, held in one["partitions"].items()}}
        for one in group["members"]
    ]
    if classic:
        members = [{**one, "epoch": None} for one in members]
    protocol = (group["protocol"] or None) if classic else None
    return _compared(group, protocol, members, group.get("offsets", {}))


def by_log(group: dict[str, Any]) -> dict[str, Any]:
    """The replayed group in the same form."""
    offsets = {f"{one['topic']}-{one['partition']}": one["offset"] for one in group["offsets"]}
    return _compared(group, group["protocol"], group["members"], offsets)


_MEMBER_FIELDS = ("member_id", "instance_id", "client_id", "client_host", "epoch", "partitions")


def _compared(
    group: dict[str, Any], protocol: str | None, members: list[dict[str, Any]], offsets: dict[str, int]
) -> dict[str, Any]:
    classic = group["type"] == "classic"
    return {
        "type": group["type"],
        "state": group["state"],
        "protocol": protocol,
        "epochs": None if classic else (group["group_epoch"], group["target_epoch"]),
        "members": sorted(tuple(one[field] for field in _MEMBER_FIELDS) for one in members),
        "offsets": offsets,
    }
