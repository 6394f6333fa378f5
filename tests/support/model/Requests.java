import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetDeleteResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;

/** A script's requests, in JSON, as those of Kafka, and Kafka's answers in JSON; for every release of Kafka. */
public class Requests {
    private static final Base64.Encoder TEXT = Base64.getEncoder();

    public static String text(JsonNode json, String name) {
        JsonNode found = json.get(name);
        return found == null || found.isNull() ? null : found.textValue();
    }

    public static byte[] bytes(JsonNode json) {
        return Base64.getDecoder().decode(json.textValue());
    }

    public static RequestContext context(ApiKeys key, int version, String client, String host) throws Exception {
        return new RequestContext(
            new RequestHeader(key, (short) version, client, 0), "1", InetAddress.getByName(host),
            KafkaPrincipal.ANONYMOUS, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, false);
    }

    public static RequestContext context(ApiKeys key) throws Exception {
        return context(key, key.latestVersion(), "client", "10.0.0.1");
    }

    public static JoinGroupRequestData join(String group, JsonNode json) {
        JoinGroupRequestData.JoinGroupRequestProtocolCollection protocols =
            new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        for (Iterator all = json.get("protocols").iterator(); all.hasNext();) {
            JsonNode one = (JsonNode) all.next();
            protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol()
                .setName(text(one, "name")).setMetadata(bytes(one.get("metadata"))));
        }
        return new JoinGroupRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setSessionTimeoutMs(json.get("session_timeout_ms").intValue())
            .setRebalanceTimeoutMs(json.get("rebalance_timeout_ms").intValue())
            .setProtocolType(text(json, "protocol_type"))
            .setProtocols(protocols);
    }

    public static RequestContext joinContext(JsonNode json) throws Exception {
        int version = 3;
        if (json.get("require_known_member_id").booleanValue()) version = 5;
        if (json.get("skips_assignment").booleanValue()) version = ApiKeys.JOIN_GROUP.latestVersion();
        return context(
            ApiKeys.JOIN_GROUP, version, text(json, "client_id"), text(json, "client_host").substring(1));
    }

    public static void joined(ObjectNode json, JoinGroupResponseData data) {
        json.put("error", Errors.forCode(data.errorCode()).name())
            .put("member_id", data.memberId()).put("generation", data.generationId())
            .put("protocol_type", data.protocolType()).put("protocol", data.protocolName())
            .put("leader", data.leader()).put("skip_assignment", data.skipAssignment());
        ArrayNode members = json.putArray("members");
        for (Iterator all = data.members().iterator(); all.hasNext();) {
            JoinGroupResponseData.JoinGroupResponseMember one =
                (JoinGroupResponseData.JoinGroupResponseMember) all.next();
            members.addArray().add(one.memberId()).add(one.groupInstanceId()).add(TEXT.encodeToString(one.metadata()));
        }
    }

    public static SyncGroupRequestData sync(String group, JsonNode json) {
        List shares = new ArrayList();
        for (Iterator all = json.get("assignments").iterator(); all.hasNext();) {
            JsonNode one = (JsonNode) all.next();
            shares.add(new SyncGroupRequestData.SyncGroupRequestAssignment()
                .setMemberId(((JsonNode) one.get(0)).textValue()).setAssignment(bytes((JsonNode) one.get(1))));
        }
        return new SyncGroupRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setGenerationId(json.get("generation").intValue())
            .setProtocolType(text(json, "protocol_type"))
            .setProtocolName(text(json, "protocol"))
            .setAssignments(shares);
    }

    public static void synced(ObjectNode json, SyncGroupResponseData data) {
        json.put("error", Errors.forCode(data.errorCode()).name())
            .put("protocol_type", data.protocolType()).put("protocol", data.protocolName())
            .put("assignment", TEXT.encodeToString(data.assignment()));
    }

    public static HeartbeatRequestData beat(String group, JsonNode json) {
        return new HeartbeatRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setGenerationId(json.get("generation").intValue());
    }

    public static LeaveGroupRequestData leave(String group, JsonNode json) {
        List members = new ArrayList();
        for (Iterator all = json.get("members").iterator(); all.hasNext();) {
            JsonNode one = (JsonNode) all.next();
            members.add(new LeaveGroupRequestData.MemberIdentity()
                .setMemberId(text(one, "member_id")).setGroupInstanceId(text(one, "instance_id")));
        }
        return new LeaveGroupRequestData().setGroupId(group).setMembers(members);
    }

    /** The error for all members, and one for each. */
    public static void left(ObjectNode json, LeaveGroupResponseData data) {
        json.put("error", Errors.forCode(data.errorCode()).name());
        ArrayNode left = json.putArray("left");
        for (Iterator all = data.members().iterator(); all.hasNext();) {
            LeaveGroupResponseData.MemberResponse one = (LeaveGroupResponseData.MemberResponse) all.next();
            left.add(Errors.forCode(one.errorCode()).name());
        }
    }

    /** A request with a retention time is an old one. */
    public static RequestContext commitContext(JsonNode json) throws Exception {
        int version = ApiKeys.OFFSET_COMMIT.latestVersion();
        if (!json.get("retention_ms").isNull()) version = 4;
        return context(ApiKeys.OFFSET_COMMIT, version, "client", "10.0.0.1");
    }

    public static OffsetCommitRequestData commit(String group, JsonNode json) {
        Map byTopic = new LinkedHashMap();
        for (Iterator all = json.get("commits").iterator(); all.hasNext();) {
            JsonNode one = (JsonNode) all.next();
            String topic = text(one, "topic");
            if (!byTopic.containsKey(topic)) byTopic.put(topic, new ArrayList());
            ((List) byTopic.get(topic)).add(new OffsetCommitRequestData.OffsetCommitRequestPartition()
                .setPartitionIndex(one.get("partition").intValue())
                .setCommittedOffset(one.get("offset").longValue())
                .setCommittedLeaderEpoch(one.get("leader_epoch").intValue())
                .setCommittedMetadata(text(one, "metadata")));
        }
        List all = new ArrayList();
        for (Iterator names = byTopic.keySet().iterator(); names.hasNext();) {
            String name = (String) names.next();
            all.add(new OffsetCommitRequestData.OffsetCommitRequestTopic()
                .setName(name).setPartitions((List) byTopic.get(name)));
        }
        return new OffsetCommitRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setGenerationIdOrMemberEpoch(json.get("generation").intValue())
            .setRetentionTimeMs(json.get("retention_ms").isNull() ? -1L : json.get("retention_ms").longValue())
            .setTopics(all);
    }

    public static TxnOffsetCommitRequestData commitInTransaction(String group, JsonNode json) {
        List all = new ArrayList();
        for (Iterator commits = json.get("commits").iterator(); commits.hasNext();) {
            JsonNode one = (JsonNode) commits.next();
            all.add(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setName(text(one, "topic"))
                .setPartitions(Collections.singletonList(
                    new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition()
                        .setPartitionIndex(one.get("partition").intValue())
                        .setCommittedOffset(one.get("offset").longValue())
                        .setCommittedLeaderEpoch(one.get("leader_epoch").intValue())
                        .setCommittedMetadata(text(one, "metadata")))));
        }
        return new TxnOffsetCommitRequestData()
            .setTransactionalId("x")
            .setProducerId(json.get("producer_id").longValue())
            .setProducerEpoch((short) 0)
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setGenerationId(json.get("generation").intValue())
            .setTopics(all);
    }

    public static OffsetDeleteRequestData deleteOffsets(String group, JsonNode json) {
        OffsetDeleteRequestData.OffsetDeleteRequestTopicCollection all =
            new OffsetDeleteRequestData.OffsetDeleteRequestTopicCollection();
        for (Iterator partitions = json.get("partitions").iterator(); partitions.hasNext();) {
            JsonNode one = (JsonNode) partitions.next();
            String name = ((JsonNode) one.get(0)).textValue();
            if (all.find(name) == null) {
                all.add(new OffsetDeleteRequestData.OffsetDeleteRequestTopic().setName(name)
                    .setPartitions(new ArrayList()));
            }
            all.find(name).partitions().add(new OffsetDeleteRequestData.OffsetDeleteRequestPartition()
                .setPartitionIndex(((JsonNode) one.get(1)).intValue()));
        }
        return new OffsetDeleteRequestData().setGroupId(group).setTopics(all);
    }

    /** The partitions whose offsets were not deleted, and why. */
    public static void refused(ArrayNode json, OffsetDeleteResponseData data) {
        for (Iterator topics = data.topics().iterator(); topics.hasNext();) {
            OffsetDeleteResponseData.OffsetDeleteResponseTopic one =
                (OffsetDeleteResponseData.OffsetDeleteResponseTopic) topics.next();
            for (Iterator partitions = one.partitions().iterator(); partitions.hasNext();) {
                OffsetDeleteResponseData.OffsetDeleteResponsePartition partition =
                    (OffsetDeleteResponseData.OffsetDeleteResponsePartition) partitions.next();
                if (partition.errorCode() == 0) continue;
                json.addArray().add(one.name()).add(partition.partitionIndex())
                    .add(Errors.forCode(partition.errorCode()).name());
            }
        }
    }
}
