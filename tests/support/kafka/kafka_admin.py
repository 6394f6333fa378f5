"""What a broker says of its groups, asked through Kafka's own Admin client (librdkafka knows no epochs)."""

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

    private void consumer(ObjectNode node, ConsumerGroupDescription group) {
        node.put("type", group.type().toString().toLowerCase());
        node.put("state", group.groupState().toString());
        node.put("protocol", group.partitionAssignor());
        number(node, "group_epoch", group.groupEpoch());
        number(node, "target_epoch", group.targetAssignmentEpoch());
        ArrayNode members = node.putArray("members");
        for (Iterator m = group.members().iterator(); m.hasNext();) {
            MemberDescription member = (MemberDescription) m.next();
            ObjectNode one = members.addObject();
            one.put("member_id", member.consumerId());
            one.put("instance_id", (String) member.groupInstanceId().orElse(null));
            one.put("client_id", member.clientId());
            one.put("client_host", member.host());
            number(one, "epoch", member.memberEpoch());
            partitions(one.putObject("partitions"), member.assignment().topicPartitions());
        }
    }

    private void classic(ObjectNode node, ClassicGroupDescription group) {
        node.put("type", "classic");
        node.put("state", group.state().toString());
        ArrayNode members = node.putArray("members");
        for (Iterator m = group.members().iterator(); m.hasNext();) {
            MemberDescription member = (MemberDescription) m.next();
            ObjectNode one = members.addObject();
            one.put("member_id", member.consumerId());
            one.put("client_id", member.clientId());
        }
    }

    private void share(ObjectNode node, ShareGroupDescription group) {
        node.put("type", "share");
        node.put("state", group.groupState().toString());
        node.put("group_epoch", group.groupEpoch());
        node.put("target_epoch", group.targetAssignmentEpoch());
        ArrayNode members = node.putArray("members");
        for (Iterator m = group.members().iterator(); m.hasNext();) {
            ShareMemberDescription member = (ShareMemberDescription) m.next();
            ObjectNode one = members.addObject();
            one.put("member_id", member.consumerId());
            one.putNull("instance_id");
            one.put("client_id", member.clientId());
            one.put("client_host", member.host());
            one.put("epoch", member.memberEpoch());
            partitions(one.putObject("partitions"), member.assignment().topicPartitions());
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
        node.put("type", "streams");
        node.put("state", group.groupState().toString());
        node.put("group_epoch", group.groupEpoch());
        node.put("target_epoch", group.targetAssignmentEpoch());
        node.put("topology_epoch", group.topologyEpoch());
        ArrayNode members = node.putArray("members");
        for (Iterator m = group.members().iterator(); m.hasNext();) {
            StreamsGroupMemberDescription member = (StreamsGroupMemberDescription) m.next();
            ObjectNode one = members.addObject();
            one.put("member_id", member.memberId());
            one.put("instance_id", (String) member.instanceId().orElse(null));
            one.put("client_id", member.clientId());
            one.put("client_host", member.clientHost());
            one.put("epoch", member.memberEpoch());
            ObjectNode held = one.putObject("partitions");
            tasks(held, member.assignment().activeTasks(), "");
            tasks(held, member.assignment().standbyTasks(), " (standby)");
            tasks(held, member.assignment().warmupTasks(), " (warmup)");
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
    """GroupQueries to one broker, whose groups may be of any kind."""

    def __init__(self, oracle: Any, servers: str) -> None:
        self._oracle = oracle
        oracle.open(servers)

    def close(self) -> None:
        """Ends the connections."""
        self._oracle.close()

    def look(self, kinds: Mapping[str, str], *, offsets: bool = False) -> dict[str, dict[str, Any]]:
        """Group -> state, epochs, members and, if wanted, committed offsets, of those that exist.

        Asked for by name and type. Classic groups and those of KIP-848 are one type here, ``consumer``: they
        may become each other. ``classic`` is for groups that are not of consumers, such as Connect's. Share
        groups have no committed offsets.
        """
        from py4j.java_collections import ListConverter, MapConverter

        # The converters need the gateway's client, which every Java object knows.
        asked = MapConverter().convert(dict(kinds), self._oracle._gateway_client)
        found = {one["group_id"]: one for one in json.loads(self._oracle.describe(asked))}
        if offsets:
            committing = [name for name in found if kinds[name] != "share"]
            names = ListConverter().convert(committing, self._oracle._gateway_client)
            for name, committed in json.loads(self._oracle.offsets(names)).items():
                found[name]["offsets"] = committed
        return found

    def describe(self, groups: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Consumer groups, classic and KIP-848, by name: state, epochs, members, committed offsets."""
        return self.look(dict.fromkeys(groups, "consumer"), offsets=True)


@contextmanager
def kafka_admin(jars: Sequence[Path], servers: str) -> Iterator[KafkaAdmin]:
    """Start a JVM with these jars and end it on leaving."""
    with compiled(jars, SOURCE, "AdminOracle") as oracle:
        yield KafkaAdmin(oracle, servers)


def by_broker(group: dict[str, Any]) -> dict[str, Any]:
    """The broker's answer in the shape of the comparison."""
    classic = group["type"] == "classic"
    return {
        "type": group["type"],
        "state": group["state"],
        "protocol": (group["protocol"] or None) if classic else None,
        "epochs": None if classic else (group["group_epoch"], group["target_epoch"]),
        "members": sorted(
            (
                one["member_id"],
                one["instance_id"],
                one["client_id"],
                one["client_host"],
                None if classic else one["epoch"],
                {topic: sorted(held) for topic, held in one["partitions"].items()},
            )
            for one in group["members"]
        ),
        "offsets": group.get("offsets", {}),
    }


def by_log(group: dict[str, Any]) -> dict[str, Any]:
    """The replayed group in the same shape."""
    classic = group["type"] == "classic"
    return {
        "type": group["type"],
        "state": group["state"],
        "protocol": group["protocol"],
        "epochs": None if classic else (group["group_epoch"], group["target_epoch"]),
        "members": sorted(
            (
                one["member_id"],
                one["instance_id"],
                one["client_id"],
                one["client_host"],
                one["epoch"],
                one["partitions"],
            )
            for one in group["members"]
        ),
        "offsets": {f"{one['topic']}-{one['partition']}": one["offset"] for one in group["offsets"]},
    }
