"""What a broker says of its groups, asked through Kafka's own Admin client (librdkafka knows no epochs)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_classes import compiled

_SOURCE = """
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

public class AdminOracle {
    private final ObjectMapper mapper = new ObjectMapper();

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

    public String describe(String servers, List groups) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        ArrayNode all = mapper.createArrayNode();
        AdminClient admin = AdminClient.create(settings);
        try {
            Map specs = new HashMap();
            for (Iterator i = groups.iterator(); i.hasNext();)
                specs.put(i.next(), new ListConsumerGroupOffsetsSpec());
            Map described = (Map) admin.describeConsumerGroups(groups).all().get();
            Map offsets = (Map) admin.listConsumerGroupOffsets(specs).all().get();
            for (Iterator i = groups.iterator(); i.hasNext();) {
                String name = (String) i.next();
                ConsumerGroupDescription group = (ConsumerGroupDescription) described.get(name);
                ObjectNode node = all.addObject();
                node.put("group_id", name);
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
                ObjectNode committed = node.putObject("offsets");
                for (Iterator o = ((Map) offsets.get(name)).entrySet().iterator(); o.hasNext();) {
                    Map.Entry entry = (Map.Entry) o.next();
                    OffsetAndMetadata offset = (OffsetAndMetadata) entry.getValue();
                    if (offset != null) committed.put(entry.getKey().toString(), offset.offset());
                }
            }
        } finally {
            admin.close();
        }
        return all.toString();
    }
}
"""


class KafkaAdmin:
    """Questions to one broker."""

    def __init__(self, oracle: Any, servers: str) -> None:
        self._oracle = oracle
        self._servers = servers

    def describe(self, groups: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Consumer groups, classic and KIP-848, by name: state, epochs, members, committed offsets."""
        from py4j.java_collections import ListConverter

        # The converter needs the gateway's client, which every Java object knows.
        names = ListConverter().convert(list(groups), self._oracle._gateway_client)
        return {one["group_id"]: one for one in json.loads(self._oracle.describe(self._servers, names))}


@contextmanager
def kafka_admin(jars: Sequence[Path], servers: str) -> Iterator[KafkaAdmin]:
    """Start a JVM with these jars and end it on leaving."""
    with compiled(jars, _SOURCE, "AdminOracle") as oracle:
        yield KafkaAdmin(oracle, servers)
