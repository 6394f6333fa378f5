"""Descriptions of groups from Kafka's own Admin client; librdkafka's client has no epochs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.kafka.kafka_classes import compiled

SOURCE = """
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

public class AdminOracle {
    private final ObjectMapper mapper = new ObjectMapper();
    private AdminClient admin;

    public void open(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        admin = AdminClient.create(settings);
    }

    public void close() {
        admin.close();
    }

    private void number(ObjectNode node, String name, Optional value) {
        if (value.isPresent()) node.put(name, ((Integer) value.get()).intValue()); else node.putNull(name);
    }

    private void partitions(ObjectNode node, Collection all) {
        for (Iterator i = all.iterator(); i.hasNext();) {
            TopicPartition one = (TopicPartition) i.next();
            ArrayNode numbers = (ArrayNode) node.get(one.topic());
            if (numbers == null) numbers = node.putArray(one.topic());
            numbers.add(one.partition());
        }
    }

    private ObjectNode member(ArrayNode members, String id, Optional instance, String client, String host) {
        ObjectNode node = members.addObject();
        node.put("member_id", id);
        node.put("instance_id", (String) instance.orElse(null));
        node.put("client_id", client);
        node.put("client_host", host);
        return node;
    }

    private ObjectNode member(ArrayNode members, MemberDescription one) {
        ObjectNode node = member(members, one.consumerId(), one.groupInstanceId(), one.clientId(), one.host());
        number(node, "epoch", one.memberEpoch());
        partitions(node.putObject("partitions"), one.assignment().topicPartitions());
        return node;
    }

    private ArrayNode group(ObjectNode node, Object type, Object state, Optional epoch, Optional target) {
        node.put("type", type.toString().toLowerCase());
        node.put("state", state.toString());
        number(node, "group_epoch", epoch);
        number(node, "target_epoch", target);
        return node.putArray("members");
    }

    private void consumer(ObjectNode node, ConsumerGroupDescription group) {
        node.put("protocol", group.partitionAssignor());
        ArrayNode members = group(
            node, group.type(), group.groupState(), group.groupEpoch(), group.targetAssignmentEpoch());
        for (Iterator m = group.members().iterator(); m.hasNext();)
            member(members, (MemberDescription) m.next());
    }

    private void classic(ObjectNode node, ClassicGroupDescription group) {
        ArrayNode members = group(node, "classic", group.state(), Optional.empty(), Optional.empty());
        for (Iterator m = group.members().iterator(); m.hasNext();)
            member(members, (MemberDescription) m.next());
    }

    private void share(ObjectNode node, ShareGroupDescription group) {
        ArrayNode members = group(node, "share", group.groupState(), Optional.of(Integer.valueOf(group.groupEpoch())),
            Optional.of(Integer.valueOf(group.targetAssignmentEpoch())));
        for (Iterator m = group.members().iterator(); m.hasNext();) {
            ShareMemberDescription one = (ShareMemberDescription) m.next();
            ObjectNode made = member(members, one.consumerId(), Optional.empty(), one.clientId(), one.host());
            made.put("epoch", one.memberEpoch());
            partitions(made.putObject("partitions"), one.assignment().topicPartitions());
        }
    }

    private void tasks(ObjectNode node, Collection all, String role) {
        for (Iterator i = all.iterator(); i.hasNext();) {
            StreamsGroupMemberAssignment.TaskIds one = (StreamsGroupMemberAssignment.TaskIds) i.next();
            ArrayNode numbers = node.putArray(one.subtopologyId() + role);
            for (Iterator n = one.partitions().iterator(); n.hasNext();)
                numbers.add(((Integer) n.next()).intValue());
        }
    }

    private void streams(ObjectNode node, StreamsGroupDescription group) {
        ArrayNode members = group(node, "streams", group.groupState(),
            Optional.of(Integer.valueOf(group.groupEpoch())),
            Optional.of(Integer.valueOf(group.targetAssignmentEpoch())));
        for (Iterator m = group.members().iterator(); m.hasNext();) {
            StreamsGroupMemberDescription one = (StreamsGroupMemberDescription) m.next();
            ObjectNode made = member(members, one.memberId(), one.instanceId(), one.clientId(), one.clientHost());
            made.put("epoch", one.memberEpoch());
            ObjectNode held = made.putObject("partitions");
            tasks(held, one.assignment().activeTasks(), "");
            tasks(held, one.assignment().standbyTasks(), " (standby)");
            tasks(held, one.assignment().warmupTasks(), " (warmup)");
        }
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
        ArrayNode all = mapper.createArrayNode();
        Map asked = new HashMap();
        for (Iterator i = kinds.keySet().iterator(); i.hasNext();) {
            String name = (String) i.next();
            asked.put(name, asked(name, (String) kinds.get(name)));
        }
        for (Iterator i = asked.keySet().iterator(); i.hasNext();) {
            String name = (String) i.next();
            Object group;
            try {
                group = ((KafkaFuture) asked.get(name)).get();
            } catch (ExecutionException e) {
                if (e.getCause() instanceof GroupIdNotFoundException) continue;
                throw e;
            }
            ObjectNode node = all.addObject();
            node.put("group_id", name);
            if (group instanceof ShareGroupDescription) share(node, (ShareGroupDescription) group);
            else if (group instanceof StreamsGroupDescription) streams(node, (StreamsGroupDescription) group);
            else if (group instanceof ClassicGroupDescription) classic(node, (ClassicGroupDescription) group);
            else consumer(node, (ConsumerGroupDescription) group);
        }
        return all.toString();
    }

    public String offsets(List groups) throws Exception {
        Map specs = new HashMap();
        for (Iterator i = groups.iterator(); i.hasNext();)
            specs.put(i.next(), new ListConsumerGroupOffsetsSpec());
        Map offsets = (Map) admin.listConsumerGroupOffsets(specs).all().get();
        ObjectNode all = mapper.createObjectNode();
        for (Iterator i = groups.iterator(); i.hasNext();) {
            String name = (String) i.next();
            ObjectNode committed = all.putObject(name);
            for (Iterator o = ((Map) offsets.get(name)).entrySet().iterator(); o.hasNext();) {
                Map.Entry entry = (Map.Entry) o.next();
                OffsetAndMetadata offset = (OffsetAndMetadata) entry.getValue();
                if (offset != null) committed.put(entry.getKey().toString(), offset.offset());
            }
        }
        return all.toString();
    }
}
"""


class KafkaAdmin:
    """An Admin client of one broker, for groups of every type."""

    def __init__(self, oracle: Any, servers: str) -> None:
        self._oracle = oracle
        oracle.open(servers)

    def close(self) -> None:
        """Closes the Admin client."""
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
        found = {one["group_id"]: one for one in json.loads(self._oracle.describe(asked))}
        if offsets:
            committing = [name for name in found if types[name] != "share"]
            names = ListConverter().convert(committing, self._oracle._gateway_client)
            for name, committed in json.loads(self._oracle.offsets(names)).items():
                found[name]["offsets"] = committed
        return found


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
