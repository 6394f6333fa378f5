import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import kafka.cluster.Partition;
import kafka.coordinator.group.GroupCoordinator;
import kafka.coordinator.group.GroupCoordinatorAdapter;
import kafka.server.ActionQueue;
import kafka.server.DelayedOperationPurgatory;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.RequestLocal;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitResponseData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetDeleteResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/** The virtual clock. */
class Clock implements Time {
    long now;

    public long milliseconds() { return now; }
    public long nanoseconds() { return now * 1000000L; }
    public long hiResClockMs() { return now; }
    public void sleep(long ms) { throw new IllegalStateException("the coordinator sleeps"); }
    public void waitObject(Object on, Supplier condition, long deadline) {
        throw new IllegalStateException("the coordinator waits");
    }
}

/** Timers in virtual time, for both purgatories; equal times fire in the order in which they were set. */
class Timers implements Timer {
    private final Clock clock;
    private final List due = new ArrayList();

    Timers(Clock clock) { this.clock = clock; }

    public void add(TimerTask task) { due.add(new TimerTaskEntry(task, clock.now + task.delayMs)); }

    public boolean advanceClock(long timeout) { return false; }

    public int size() { return due.size(); }

    public void close() { }

    TimerTaskEntry take(long now) {
        TimerTaskEntry first = null;
        for (Iterator all = due.iterator(); all.hasNext();) {
            TimerTaskEntry one = (TimerTaskEntry) all.next();
            if (one.cancelled()) all.remove();
            else if (one.expirationMs <= now && (first == null || one.expirationMs < first.expirationMs)) first = one;
        }
        if (first != null) due.remove(first);
        return first;
    }
}

/** Takes the records of the coordinator. Never constructed: the broker's own fields are not needed. */
class Log extends ReplicaManager {
    ScalaShard shard;

    Log() {
        super(
            null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
            null, null, null, null);
    }

    public void appendRecords(
        long timeout, short acks, boolean internal, AppendOrigin origin, scala.collection.Map entries,
        scala.Function1 callback, scala.Option lock, scala.Function1 statistics, RequestLocal local,
        ActionQueue actions, scala.collection.Map guards
    ) {
        scala.Tuple2 entry = (scala.Tuple2) entries.head();
        shard.append((MemoryRecords) entry._2());
        callback.apply(new scala.collection.immutable.Map.Map1(
            entry._1(), new ProduceResponse.PartitionResponse(Errors.NONE)));
    }

    public scala.Function1 appendRecords$default$8() { return null; }

    public ActionQueue appendRecords$default$10() { return null; }

    public scala.Option getMagic(TopicPartition partition) { return new scala.Some(Byte.valueOf((byte) 2)); }

    public scala.Option onlinePartition(TopicPartition partition) { return new scala.Some(shard.partition); }

    public void tryCompleteActions() { }
}

/** Takes tombstones, which the coordinator writes past the replica manager. */
class OffsetsPartition extends Partition {
    ScalaShard shard;

    OffsetsPartition() { super(null, 0L, null, 0, null, null, null, null, null, null, null, null); }

    public LogAppendInfo appendRecordsToLeader(
        MemoryRecords records, AppendOrigin origin, int acks, RequestLocal local, VerificationGuard guard
    ) {
        shard.append(records);
        return null;
    }

    public VerificationGuard appendRecordsToLeader$default$5() { return null; }
}

/** An open JoinGroup or SyncGroup. */
class Open {
    final int number;
    CompletableFuture answer = new CompletableFuture();

    Open(int number) { this.number = number; }
}

/** The coordinator of Kafka 3.9.1 for classic groups, in virtual time; appends succeed at once. */
public class ScalaShard {
    /** Random bytes for all of the JVM's UUIDs, so that a script's member ids only depend on its seed. */
    public static class Seeded extends SecureRandomSpi {
        static final Random NUMBERS = new Random(0);
        static byte[] last = null;

        protected void engineSetSeed(byte[] seed) { }

        protected void engineNextBytes(byte[] bytes) {
            NUMBERS.nextBytes(bytes);
            last = (byte[]) bytes.clone();
        }

        protected byte[] engineGenerateSeed(int count) { return new byte[count]; }
    }

    /** Names the class above for "SecureRandom". */
    public static class SeededProvider extends Provider {
        public SeededProvider() {
            super("Seeded", 1.0, "deterministic");
            put("SecureRandom.Seeded", Seeded.class.getName());
        }
    }

    private static final Base64.Encoder TEXT = Base64.getEncoder();
    Partition partition;
    private final ObjectMapper mapper = new ObjectMapper();
    private final Clock clock = new Clock();
    private Timers timers;
    private GroupCoordinator old;
    private GroupCoordinatorAdapter coordinator;
    private String group;
    private List open;
    private ArrayNode answers;
    private ArrayNode operations;

    public ScalaShard() {
        Security.insertProviderAt(new SeededProvider(), 1);
    }

    private static Object unmade(Class kind) throws Exception {
        Field unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(kind);
    }

    /** A new coordinator: {"seed", "now", "group", "config": {name: value}}. */
    public void begin(String text) throws Exception {
        JsonNode json = mapper.readTree(text);
        Seeded.NUMBERS.setSeed(json.get("seed").longValue());
        clock.now = json.get("now").longValue();
        group = json.get("group").textValue();
        open = new ArrayList();
        start();
        if (old != null) old.shutdown();
        timers = new Timers(clock);
        Properties settings = new Properties();
        settings.put("process.roles", "broker");
        settings.put("node.id", "1");
        settings.put("controller.quorum.voters", "2@localhost:9093");
        settings.put("controller.listener.names", "CONTROLLER");
        for (Iterator names = json.get("config").fieldNames(); names.hasNext();) {
            String name = (String) names.next();
            if (!name.startsWith("group.consumer")) settings.put(name, json.get("config").get(name).asText());
        }
        Log log = (Log) unmade(Log.class);
        log.shard = this;
        OffsetsPartition offsets = (OffsetsPartition) unmade(OffsetsPartition.class);
        offsets.shard = this;
        partition = offsets;
        DelayedOperationPurgatory heartbeats =
            new DelayedOperationPurgatory("Heartbeat", timers, 1, 1000, false, true);
        DelayedOperationPurgatory rebalances =
            new DelayedOperationPurgatory("Rebalance", timers, 1, 1000, false, true);
        old = kafka.coordinator.group.GroupCoordinator$.MODULE$.apply(
            KafkaConfig.fromProps(settings, false), log, heartbeats, rebalances, clock, new Metrics());
        coordinator = new GroupCoordinatorAdapter(old, clock);
        // Without the scheduled check of the offsets' retention, which runs in another thread at once.
        old.startup(new One(), false);
        old.groupManager().addOwnedPartition(0);
    }

    /** The number of partitions of the offsets topic. */
    static class One extends scala.runtime.AbstractFunction0 {
        public Object apply() { return Integer.valueOf(1); }
    }

    /** Topics are of no meaning to this coordinator. */
    public void topic(String name, byte[] id, int partitions, String racks) { }

    /** Runs the timers that are due by now, each at its own time. */
    public String advance(long now) throws Exception {
        start();
        serve(now);
        return told();
    }

    /** Handles a request of the model, as JSON with its "kind" and its number, after the timers that are due. */
    public String handle(String kind, int number, String text, long now) throws Exception {
        start();
        serve(now);
        Seeded.last = null;
        request(kind, number, mapper.readTree(text));
        return told();
    }

    public String cleanUp(long now) throws Exception {
        start();
        serve(now);
        old.groupManager().cleanupGroupMetadata();
        return told();
    }

    private void start() {
        answers = mapper.createArrayNode();
        operations = mapper.createArrayNode();
    }

    private void serve(long now) throws Exception {
        for (TimerTaskEntry due = timers.take(now); due != null; due = timers.take(now)) {
            clock.now = Math.max(clock.now, due.expirationMs);
            due.timerTask.run();
        }
        clock.now = now;
    }

    void append(MemoryRecords records) {
        ArrayNode operation = operations.addObject().put("at", clock.now).putArray("records");
        for (Iterator all = records.records().iterator(); all.hasNext();) {
            Record record = (Record) all.next();
            ArrayNode pair = operation.addArray();
            pair.add(TEXT.encodeToString(raw(record.key())));
            if (record.hasValue()) pair.add(TEXT.encodeToString(raw(record.value())));
            else pair.addNull();
        }
    }

    private static byte[] raw(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        ((ByteBuffer) buffer.duplicate()).get(bytes);
        return bytes;
    }

    private String told() {
        for (Iterator all = open.iterator(); all.hasNext();) {
            Open one = (Open) all.next();
            if (!one.answer.isDone()) continue;
            all.remove();
            Object answer = one.answer.join();
            if (answer instanceof JoinGroupResponseData) joined(one.number, (JoinGroupResponseData) answer);
            else synced(one.number, (SyncGroupResponseData) answer);
        }
        ObjectNode json = mapper.createObjectNode();
        json.set("answers", answers);
        json.set("operations", operations);
        json.putObject("timers");
        if (Seeded.last != null) json.put("drawn", TEXT.encodeToString(Seeded.last));
        return json.toString();
    }

    private void request(String kind, int number, JsonNode json) throws Exception {
        if (kind.equals("JoinGroup")) join(number, json);
        else if (kind.equals("SyncGroup")) sync(number, json);
        else if (kind.equals("ClassicHeartbeat")) beat(number, json);
        else if (kind.equals("LeaveGroup")) leave(number, json);
        else if (kind.equals("OffsetCommit")) commit(number, json);
        else if (kind.equals("DeleteGroup")) delete(number);
        else if (kind.equals("OffsetDelete")) deleteOffsets(number, json);
        else throw new IllegalArgumentException(kind);
    }

    private RequestContext context(ApiKeys key, int version, String client, String host) throws Exception {
        return new RequestContext(
            new RequestHeader(key, (short) version, client, 0), "1", InetAddress.getByName(host),
            KafkaPrincipal.ANONYMOUS, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, false);
    }

    private RequestContext context(ApiKeys key) throws Exception {
        return context(key, key.latestVersion(), "client", "10.0.0.1");
    }

    private static String text(JsonNode json, String name) {
        JsonNode found = json.get(name);
        return found == null || found.isNull() ? null : found.textValue();
    }

    private static byte[] bytes(JsonNode json) {
        return Base64.getDecoder().decode(json.textValue());
    }

    private ObjectNode answer(int number, String kind) {
        return answers.addObject().put("number", number).put("kind", kind);
    }

    private void join(int number, JsonNode json) throws Exception {
        JoinGroupRequestData.JoinGroupRequestProtocolCollection protocols =
            new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        for (Iterator all = json.get("protocols").iterator(); all.hasNext();) {
            JsonNode one = (JsonNode) all.next();
            protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol()
                .setName(text(one, "name")).setMetadata(bytes(one.get("metadata"))));
        }
        JoinGroupRequestData data = new JoinGroupRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setSessionTimeoutMs(json.get("session_timeout_ms").intValue())
            .setRebalanceTimeoutMs(json.get("rebalance_timeout_ms").intValue())
            .setProtocolType(text(json, "protocol_type"))
            .setProtocols(protocols);
        int version = 3;
        if (json.get("require_known_member_id").booleanValue()) version = 5;
        if (json.get("skips_assignment").booleanValue()) version = ApiKeys.JOIN_GROUP.latestVersion();
        RequestContext context =
            context(ApiKeys.JOIN_GROUP, version, text(json, "client_id"), text(json, "client_host").substring(1));
        Open one = new Open(number);
        open.add(one);
        one.answer = coordinator.joinGroup(context, data, BufferSupplier.NO_CACHING);
    }

    private void joined(int number, JoinGroupResponseData data) {
        ObjectNode json = answer(number, "JoinGroup").put("error", Errors.forCode(data.errorCode()).name())
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

    private void sync(int number, JsonNode json) throws Exception {
        List shares = new ArrayList();
        for (Iterator all = json.get("assignments").iterator(); all.hasNext();) {
            JsonNode one = (JsonNode) all.next();
            shares.add(new SyncGroupRequestData.SyncGroupRequestAssignment()
                .setMemberId(((JsonNode) one.get(0)).textValue()).setAssignment(bytes((JsonNode) one.get(1))));
        }
        SyncGroupRequestData data = new SyncGroupRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setGenerationId(json.get("generation").intValue())
            .setProtocolType(text(json, "protocol_type"))
            .setProtocolName(text(json, "protocol"))
            .setAssignments(shares);
        Open one = new Open(number);
        open.add(one);
        one.answer = coordinator.syncGroup(context(ApiKeys.SYNC_GROUP), data, BufferSupplier.NO_CACHING);
    }

    private void synced(int number, SyncGroupResponseData data) {
        answer(number, "SyncGroup").put("error", Errors.forCode(data.errorCode()).name())
            .put("protocol_type", data.protocolType()).put("protocol", data.protocolName())
            .put("assignment", TEXT.encodeToString(data.assignment()));
    }

    private void beat(int number, JsonNode json) throws Exception {
        HeartbeatRequestData data = new HeartbeatRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setGenerationId(json.get("generation").intValue());
        HeartbeatResponseData told =
            (HeartbeatResponseData) coordinator.heartbeat(context(ApiKeys.HEARTBEAT), data).get();
        answer(number, "ClassicHeartbeat").put("error", Errors.forCode(told.errorCode()).name());
    }

    private void leave(int number, JsonNode json) throws Exception {
        LeaveGroupRequestData data = new LeaveGroupRequestData().setGroupId(group).setMembers(
            Collections.singletonList(new LeaveGroupRequestData.MemberIdentity()
                .setMemberId(text(json, "member_id")).setGroupInstanceId(text(json, "instance_id"))));
        LeaveGroupResponseData told =
            (LeaveGroupResponseData) coordinator.leaveGroup(context(ApiKeys.LEAVE_GROUP), data).get();
        if (told.members().isEmpty()) {
            answer(number, "LeaveGroup").put("error", Errors.forCode(told.errorCode()).name());
            return;
        }
        LeaveGroupResponseData.MemberResponse one =
            (LeaveGroupResponseData.MemberResponse) told.members().get(0);
        answer(number, "LeaveGroup").put("error", Errors.forCode(one.errorCode()).name());
    }

    private void commit(int number, JsonNode json) throws Exception {
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
        OffsetCommitRequestData data = new OffsetCommitRequestData()
            .setGroupId(group)
            .setMemberId(text(json, "member_id"))
            .setGroupInstanceId(text(json, "instance_id"))
            .setGenerationIdOrMemberEpoch(json.get("generation").intValue())
            .setTopics(all);
        OffsetCommitResponseData told = (OffsetCommitResponseData) coordinator.commitOffsets(
            context(ApiKeys.OFFSET_COMMIT), data, BufferSupplier.NO_CACHING).get();
        OffsetCommitResponseData.OffsetCommitResponseTopic topic =
            (OffsetCommitResponseData.OffsetCommitResponseTopic) told.topics().get(0);
        OffsetCommitResponseData.OffsetCommitResponsePartition one =
            (OffsetCommitResponseData.OffsetCommitResponsePartition) topic.partitions().get(0);
        answer(number, "OffsetCommit").put("error", Errors.forCode(one.errorCode()).name());
    }

    private void deleteOffsets(int number, JsonNode json) throws Exception {
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
        OffsetDeleteRequestData data = new OffsetDeleteRequestData().setGroupId(group).setTopics(all);
        OffsetDeleteResponseData told;
        try {
            told = (OffsetDeleteResponseData) coordinator.deleteOffsets(
                context(ApiKeys.OFFSET_DELETE), data, BufferSupplier.NO_CACHING).get();
        } catch (java.util.concurrent.ExecutionException thrown) {
            answer(number, "OffsetDelete").put("error", Errors.forException(thrown.getCause()).name());
            return;
        }
        ArrayNode refused = answer(number, "OffsetDelete")
            .put("error", Errors.forCode(told.errorCode()).name()).putArray("refused");
        for (Iterator topics = told.topics().iterator(); topics.hasNext();) {
            OffsetDeleteResponseData.OffsetDeleteResponseTopic one =
                (OffsetDeleteResponseData.OffsetDeleteResponseTopic) topics.next();
            for (Iterator partitions = one.partitions().iterator(); partitions.hasNext();) {
                OffsetDeleteResponseData.OffsetDeleteResponsePartition partition =
                    (OffsetDeleteResponseData.OffsetDeleteResponsePartition) partitions.next();
                if (partition.errorCode() == 0) continue;
                refused.addArray().add(one.name()).add(partition.partitionIndex())
                    .add(Errors.forCode(partition.errorCode()).name());
            }
        }
    }

    private void delete(int number) throws Exception {
        DeleteGroupsResponseData.DeletableGroupResultCollection told =
            (DeleteGroupsResponseData.DeletableGroupResultCollection)
                coordinator.deleteGroups(
                    context(ApiKeys.DELETE_GROUPS), Collections.singletonList(group), BufferSupplier.NO_CACHING).get();
        DeleteGroupsResponseData.DeletableGroupResult one =
            (DeleteGroupsResponseData.DeletableGroupResult) told.iterator().next();
        answer(number, "DeleteGroup").put("error", Errors.forCode(one.errorCode()).name());
    }
}
