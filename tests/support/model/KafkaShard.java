import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetDeleteResponseData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.timeline.SnapshotRegistry;
import com.yammer.metrics.core.MetricsRegistry;

/** The virtual clock. */
class Clock implements Time {
    long now;

    public long milliseconds() { return now; }
    public long nanoseconds() { return now * 1000000L; }
    public void sleep(long ms) { throw new IllegalStateException("the coordinator sleeps"); }
    public void waitObject(Object on, Supplier condition, long deadline) {
        throw new IllegalStateException("the coordinator waits");
    }
}

class Due {
    final long atMs;
    final long number;
    final CoordinatorTimer.TimeoutOperation operation;

    Due(long atMs, long number, CoordinatorTimer.TimeoutOperation operation) {
        this.atMs = atMs;
        this.number = number;
        this.operation = operation;
    }
}

/** Timers in virtual time; equal times fire in the order in which they were set, as in the broker's timing wheel. */
class Timers implements CoordinatorTimer {
    final Map due = new TreeMap();
    private final Clock clock;
    private long numbers = 0;

    Timers(Clock clock) { this.clock = clock; }

    public void schedule(
        String key, long delay, TimeUnit unit, boolean retry, CoordinatorTimer.TimeoutOperation operation
    ) {
        due.put(key, new Due(clock.now + unit.toMillis(delay), numbers++, operation));
    }

    public void schedule(
        String key, long delay, TimeUnit unit, boolean retry, long backoff,
        CoordinatorTimer.TimeoutOperation operation
    ) {
        schedule(key, delay, unit, retry, operation);
    }

    public void scheduleIfAbsent(
        String key, long delay, TimeUnit unit, boolean retry, CoordinatorTimer.TimeoutOperation operation
    ) {
        if (!due.containsKey(key)) schedule(key, delay, unit, retry, operation);
    }

    public void cancel(String key) { due.remove(key); }

    public boolean isScheduled(String key) { return due.containsKey(key); }

    Due take(long now) {
        String first = null;
        for (Iterator keys = due.keySet().iterator(); keys.hasNext();) {
            String key = (String) keys.next();
            Due one = (Due) due.get(key);
            Due best = first == null ? null : (Due) due.get(first);
            if (one.atMs > now) continue;
            if (best == null || one.atMs < best.atMs || one.atMs == best.atMs && one.number < best.number) first = key;
        }
        return first == null ? null : (Due) due.remove(first);
    }
}

/** Background tasks, which are run right after the request that schedules them. */
class Tasks implements CoordinatorExecutor {
    private final Map waiting = new LinkedHashMap();

    public boolean schedule(
        String key, CoordinatorExecutor.TaskRunnable task, CoordinatorExecutor.TaskOperation operation
    ) {
        waiting.put(key, new Object[] {task, operation});
        return true;
    }

    public boolean isScheduled(String key) { return waiting.containsKey(key); }

    public void cancel(String key) { waiting.remove(key); }

    CoordinatorResult next() throws Exception {
        if (waiting.isEmpty()) return null;
        Object key = waiting.keySet().iterator().next();
        Object[] both = (Object[]) waiting.remove(key);
        try {
            Object found = ((CoordinatorExecutor.TaskRunnable) both[0]).run();
            return ((CoordinatorExecutor.TaskOperation) both[1]).onComplete(found, null);
        } catch (Throwable thrown) {
            throw new IllegalStateException(thrown);
        }
    }
}

/** A record of the log, or the end of a transaction. */
class Written {
    final long producer;
    final CoordinatorRecord record;
    final TransactionResult end;

    Written(long producer, CoordinatorRecord record, TransactionResult end) {
        this.producer = producer;
        this.record = record;
        this.end = end;
    }
}

/** An open JoinGroup or SyncGroup. */
class Open {
    final int number;
    final CompletableFuture answer = new CompletableFuture();

    Open(int number) { this.number = number; }
}

/** The coordinator of one partition of the offsets topic, in virtual time; appends succeed at once. */
public class KafkaShard {
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
    private final ObjectMapper mapper = new ObjectMapper();
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final Clock clock = new Clock();
    private Timers timers;
    private Tasks tasks;
    private Map settings;
    private List log;
    private Map brokers;
    private GroupCoordinatorShard shard;
    private String group;
    private Map topics;
    private MetadataImage image;
    private long offset;
    private List open;
    private ArrayNode answers;
    private ArrayNode operations;

    public KafkaShard() {
        Security.insertProviderAt(new SeededProvider(), 1);
    }

    /** A new coordinator: {"seed", "now", "group", "config": {name: value}}. */
    public void begin(String text) throws Exception {
        JsonNode json = mapper.readTree(text);
        Seeded.NUMBERS.setSeed(json.get("seed").longValue());
        clock.now = json.get("now").longValue();
        group = json.get("group").textValue();
        open = new ArrayList();
        log = new ArrayList();
        offset = 0;
        image = MetadataImage.EMPTY;
        topics = new HashMap();
        brokers = new HashMap();
        settings = new HashMap();
        for (Iterator names = json.get("config").fieldNames(); names.hasNext();) {
            String name = (String) names.next();
            settings.put(name, json.get("config").get(name).asText());
        }
        load();
    }

    /** A shard that has read the whole log. */
    private void load() throws Exception {
        timers = new Timers(clock);
        tasks = new Tasks();
        GroupCoordinatorConfig config =
            new GroupCoordinatorConfig(new AbstractConfig(GroupCoordinatorConfig.CONFIG_DEF, settings, false));
        GroupConfigManager manager =
            new GroupConfigManager(new HashMap(), config, ShareGroupConfig.fromProps(new HashMap()));
        GroupCoordinatorShard.Builder builder = new GroupCoordinatorShard.Builder(config, manager);
        builder.withAuthorizerPlugin(Optional.empty());
        shard = (GroupCoordinatorShard) builder
            .withLogContext(new LogContext())
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext()))
            .withTime(clock)
            .withTimer(timers)
            .withExecutor(tasks)
            .withCoordinatorMetrics(new GroupCoordinatorMetrics(new MetricsRegistry(), new Metrics()))
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0))
            .build();
        for (int number = 0; number < log.size(); number++) replay(number, (Written) log.get(number));
        shard.onLoaded(new KRaftCoordinatorMetadataImage(image));
        // Those of the whole partition, not of a group; the expiry check is run by cleanUp.
        timers.due.remove("expire-group-metadata");
        timers.due.remove("group-size-counter");
    }

    private void replay(int number, Written one) {
        short epoch = (short) (one.producer == -1L ? -1 : 0);
        if (one.end == null) shard.replay(number, one.producer, epoch, one.record);
        else shard.replayEndTransactionMarker(one.producer, epoch, one.end);
    }

    private void write(long producer, CoordinatorRecord record, TransactionResult end, boolean applied) {
        Written one = new Written(producer, record, end);
        log.add(one);
        if (applied) replay(log.size() - 1, one);
    }

    /** Another broker becomes the coordinator and reads the whole log. */
    public String move(long now) throws Exception {
        start();
        serve(now);
        shard.onUnloaded();
        load();
        return told();
    }

    /** A topic is deleted. */
    public String deleteTopic(String name, long now) throws Exception {
        start();
        serve(now);
        Uuid id = (Uuid) topics.remove(name);
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        delta.replay(new RemoveTopicRecord().setTopicId(id));
        image = delta.apply(new MetadataProvenance(++offset, 0, 0L, true));
        shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
        run(shard.onTopicsDeleted(Collections.singletonList(new GroupCoordinatorShard.DeletedTopic(id, name))));
        return told();
    }

    /** A topic is created or gets more partitions; racks: of the replicas of each partition, as JSON. */
    public void topic(String name, byte[] id, int partitions, String racks) throws Exception {
        JsonNode placed = mapper.readTree(racks);
        ByteBuffer bits = ByteBuffer.wrap(id);
        Uuid uuid = new Uuid(bits.getLong(), bits.getLong());
        int known = topics.containsKey(name) ? image.topics().getTopic(name).partitions().size() : 0;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        if (known == 0) delta.replay(new TopicRecord().setName(name).setTopicId(uuid));
        for (int number = known; number < partitions; number++) {
            List replicas = new ArrayList();
            replicas.add(Integer.valueOf(0));
            for (int place = 0; number < placed.size() && place < ((JsonNode) placed.get(number)).size(); place++) {
                String rack = ((JsonNode) ((JsonNode) placed.get(number)).get(place)).textValue();
                if (!brokers.containsKey(rack)) {
                    brokers.put(rack, Integer.valueOf(brokers.size() + 1));
                    delta.replay(new RegisterBrokerRecord()
                        .setBrokerId(((Integer) brokers.get(rack)).intValue()).setRack(rack));
                }
                replicas.add(brokers.get(rack));
            }
            delta.replay(new PartitionRecord().setTopicId(uuid).setPartitionId(number)
                .setReplicas(replicas).setIsr(replicas).setLeader(0));
        }
        topics.put(name, uuid);
        image = delta.apply(new MetadataProvenance(++offset, 0, 0L, true));
        shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
    }

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
        JsonNode json = mapper.readTree(text);
        try {
            request(kind, number, json);
        } catch (Throwable thrown) {
            for (Iterator all = open.iterator(); all.hasNext();) {
                if (((Open) all.next()).number == number) all.remove();
            }
            answer(number, "threw").put("error", Errors.forException(thrown).name()).put("detail", thrown.toString());
        }
        for (CoordinatorResult due = tasks.next(); due != null; due = tasks.next()) run(due);
        return told();
    }

    public String cleanUp(long now) throws Exception {
        start();
        serve(now);
        run(shard.cleanupGroupMetadata());
        timers.due.remove("expire-group-metadata");
        return told();
    }

    /** A record that another broker has written. */
    public void put(byte[] key, byte[] value) {
        write(-1L, serde.deserialize(ByteBuffer.wrap(key), ByteBuffer.wrap(value)), null, true);
    }

    /** The committed offsets of the group: {topic: {partition: offset}}. */
    public String offsets() throws Exception {
        ObjectNode json = mapper.createObjectNode();
        OffsetFetchResponseData.OffsetFetchResponseGroup told = shard.fetchOffsets(
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group).setTopics(null),
            Long.MAX_VALUE);
        for (Iterator topics = told.topics().iterator(); topics.hasNext();) {
            OffsetFetchResponseData.OffsetFetchResponseTopics one =
                (OffsetFetchResponseData.OffsetFetchResponseTopics) topics.next();
            ObjectNode partitions = json.putObject(one.name());
            for (Iterator all = one.partitions().iterator(); all.hasNext();) {
                OffsetFetchResponseData.OffsetFetchResponsePartitions partition =
                    (OffsetFetchResponseData.OffsetFetchResponsePartitions) all.next();
                partitions.put(String.valueOf(partition.partitionIndex()), partition.committedOffset());
            }
        }
        return json.toString();
    }

    private void start() {
        answers = mapper.createArrayNode();
        operations = mapper.createArrayNode();
    }

    private void serve(long now) throws Exception {
        for (Due due = timers.take(now); due != null; due = timers.take(now)) {
            clock.now = Math.max(clock.now, due.atMs);
            try {
                run(due.operation.generateRecords());
            } catch (IllegalStateException thrown) {
                // The runtime only logs it; timers of classic groups are not tried again.
            }
        }
        clock.now = now;
    }

    private String told() {
        for (Iterator all = open.iterator(); all.hasNext();) {
            Open one = (Open) all.next();
            if (!one.answer.isDone()) continue;
            all.remove();
            Object answer = one.answer.join();
            if (answer instanceof JoinGroupResponseData) {
                Requests.joined(answer(one.number, "JoinGroup"), (JoinGroupResponseData) answer);
            }
            else Requests.synced(answer(one.number, "SyncGroup"), (SyncGroupResponseData) answer);
        }
        ObjectNode json = mapper.createObjectNode();
        json.set("answers", answers);
        json.set("operations", operations);
        ObjectNode due = json.putObject("timers");
        for (Iterator keys = timers.due.keySet().iterator(); keys.hasNext();) {
            String key = (String) keys.next();
            due.put(key, ((Due) timers.due.get(key)).atMs);
        }
        if (Seeded.last != null) json.put("drawn", TEXT.encodeToString(Seeded.last));
        return json.toString();
    }

    /** Writes the records of an operation, applies them and tells the coordinator that they are written. */
    private Object run(CoordinatorResult result) throws Exception {
        return run(result, -1L);
    }

    private Object run(CoordinatorResult result, long producer) throws Exception {
        List records = result.records();
        if (records != null && !records.isEmpty()) {
            ArrayNode operation = operations.addObject().put("at", clock.now).putArray("records");
            for (Iterator all = records.iterator(); all.hasNext();) {
                CoordinatorRecord record = (CoordinatorRecord) all.next();
                byte[] value = serde.serializeValue(record);
                ArrayNode pair = operation.addArray();
                pair.add(TEXT.encodeToString(serde.serializeKey(record)));
                pair.add(value == null ? null : TEXT.encodeToString(value));
                write(producer, record, null, result.replayRecords());
            }
        }
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return result.response();
    }

    private void request(String kind, int number, JsonNode json) throws Exception {
        if (kind.equals("JoinGroup")) join(number, json);
        else if (kind.equals("SyncGroup")) sync(number, json);
        else if (kind.equals("ClassicHeartbeat")) beat(number, json);
        else if (kind.equals("LeaveGroup")) leave(number, json);
        else if (kind.equals("ConsumerGroupHeartbeat")) consumer(number, json);
        else if (kind.equals("OffsetCommit")) commit(number, json);
        else if (kind.equals("DeleteGroup")) delete(number);
        else if (kind.equals("EndTransaction")) end(number, json);
        else if (kind.equals("OffsetDelete")) deleteOffsets(number, json);
        else throw new IllegalArgumentException(kind);
    }

    private ObjectNode answer(int number, String kind) {
        return answers.addObject().put("number", number).put("kind", kind);
    }

    private void join(int number, JsonNode json) throws Exception {
        Open one = new Open(number);
        open.add(one);
        run(shard.classicGroupJoin(Requests.joinContext(json), Requests.join(group, json), one.answer));
    }

    private void sync(int number, JsonNode json) throws Exception {
        Open one = new Open(number);
        open.add(one);
        run(shard.classicGroupSync(
            Requests.context(ApiKeys.SYNC_GROUP), Requests.sync(group, json), one.answer));
    }

    private void beat(int number, JsonNode json) throws Exception {
        HeartbeatRequestData data = Requests.beat(group, json);
        HeartbeatResponseData told =
            (HeartbeatResponseData) run(shard.classicGroupHeartbeat(Requests.context(ApiKeys.HEARTBEAT), data));
        answer(number, "ClassicHeartbeat").put("error", Errors.forCode(told.errorCode()).name());
    }

    private void leave(int number, JsonNode json) throws Exception {
        LeaveGroupRequestData data = Requests.leave(group, json);
        LeaveGroupResponseData told =
            (LeaveGroupResponseData) run(shard.classicGroupLeave(Requests.context(ApiKeys.LEAVE_GROUP), data));
        Requests.left(answer(number, "LeaveGroup"), told);
    }

    private void consumer(int number, JsonNode json) throws Exception {
        ConsumerGroupHeartbeatRequestData data = new ConsumerGroupHeartbeatRequestData()
            .setGroupId(group)
            .setMemberId(Requests.text(json, "member_id"))
            .setMemberEpoch(json.get("member_epoch").intValue())
            .setInstanceId(Requests.text(json, "instance_id"))
            .setRackId(Requests.text(json, "rack_id"))
            .setRebalanceTimeoutMs(json.get("rebalance_timeout_ms").intValue())
            .setServerAssignor(Requests.text(json, "assignor"));
        if (!json.get("topics").isNull()) {
            List names = new ArrayList();
            for (Iterator all = json.get("topics").iterator(); all.hasNext();) {
                JsonNode one = (JsonNode) all.next();
                names.add(one.textValue());
            }
            data.setSubscribedTopicNames(names);
        }
        if (!json.get("topic_regex").isNull()) data.setSubscribedTopicRegex(Requests.text(json, "topic_regex"));
        if (!json.get("owned").isNull()) data.setTopicPartitions(owned(json.get("owned")));
        RequestContext context = Requests.context(
            ApiKeys.CONSUMER_GROUP_HEARTBEAT, ApiKeys.CONSUMER_GROUP_HEARTBEAT.latestVersion(),
            Requests.text(json, "client_id"), Requests.text(json, "client_host").substring(1));
        ConsumerGroupHeartbeatResponseData told =
            (ConsumerGroupHeartbeatResponseData) run(shard.consumerGroupHeartbeat(context, data));
        ObjectNode answer = answer(number, "ConsumerGroupHeartbeat")
            .put("error", Errors.forCode(told.errorCode()).name())
            .put("member_id", told.memberId()).put("generation", told.memberEpoch());
        if (told.assignment() == null) return;
        ArrayNode assigned = answer.putArray("assigned");
        for (Iterator all = told.assignment().topicPartitions().iterator(); all.hasNext();) {
            ConsumerGroupHeartbeatResponseData.TopicPartitions one =
                (ConsumerGroupHeartbeatResponseData.TopicPartitions) all.next();
            String id = TEXT.encodeToString(raw(one.topicId()));
            for (Iterator numbers = one.partitions().iterator(); numbers.hasNext();) {
                assigned.addArray().add(id).add(((Integer) numbers.next()).intValue());
            }
        }
    }

    private static byte[] raw(Uuid id) {
        return ByteBuffer.allocate(16)
            .putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array();
    }

    private static List owned(JsonNode json) {
        Map byTopic = new TreeMap();
        for (Iterator all = json.iterator(); all.hasNext();) {
            JsonNode one = (JsonNode) all.next();
            ByteBuffer bits = ByteBuffer.wrap(Requests.bytes((JsonNode) one.get(0)));
            Uuid id = new Uuid(bits.getLong(), bits.getLong());
            if (!byTopic.containsKey(id)) byTopic.put(id, new ArrayList());
            ((List) byTopic.get(id)).add(Integer.valueOf(((JsonNode) one.get(1)).intValue()));
        }
        List all = new ArrayList();
        for (Iterator ids = byTopic.keySet().iterator(); ids.hasNext();) {
            Uuid id = (Uuid) ids.next();
            all.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions()
                .setTopicId(id).setPartitions((List) byTopic.get(id)));
        }
        return all;
    }

    private void commitInTransaction(int number, JsonNode json) throws Exception {
        long producer = json.get("producer_id").longValue();
        TxnOffsetCommitRequestData data = Requests.commitInTransaction(group, json);
        /* ids of topics */
        run(shard.commitTransactionalOffset(Requests.context(ApiKeys.TXN_OFFSET_COMMIT), data), producer);
        answer(number, "OffsetCommit").put("error", "NONE");
    }

    private void end(int number, JsonNode json) {
        boolean committed = json.get("committed").booleanValue();
        write(json.get("producer_id").longValue(), null,
            committed ? TransactionResult.COMMIT : TransactionResult.ABORT, true);
        answer(number, "EndTransaction").put("error", "NONE");
    }

    private void deleteOffsets(int number, JsonNode json) throws Exception {
        OffsetDeleteRequestData data = Requests.deleteOffsets(group, json);
        OffsetDeleteResponseData told =
            (OffsetDeleteResponseData) run(shard.deleteOffsets(Requests.context(ApiKeys.OFFSET_DELETE), data));
        ArrayNode refused = answer(number, "OffsetDelete").put("error", "NONE").putArray("refused");
        Requests.refused(refused, told);
    }

    private void commit(int number, JsonNode json) throws Exception {
        if (!json.get("producer_id").isNull()) {
            commitInTransaction(number, json);
            return;
        }
        OffsetCommitRequestData data = Requests.commit(group, json);
        for (Iterator all = data.topics().iterator(); all.hasNext();) {
            OffsetCommitRequestData.OffsetCommitRequestTopic one =
                (OffsetCommitRequestData.OffsetCommitRequestTopic) all.next();
            if (topics.containsKey(one.name())) one.setTopicId((Uuid) topics.get(one.name()));
        }
        run(shard.commitOffset(Requests.commitContext(json), data));
        answer(number, "OffsetCommit").put("error", "NONE");
    }

    private void delete(int number) throws Exception {
        DeleteGroupsResponseData.DeletableGroupResultCollection told =
            (DeleteGroupsResponseData.DeletableGroupResultCollection)
                run(shard.deleteGroups(Requests.context(ApiKeys.DELETE_GROUPS), Collections.singletonList(group)));
        DeleteGroupsResponseData.DeletableGroupResult one =
            (DeleteGroupsResponseData.DeletableGroupResult) told.iterator().next();
        answer(number, "DeleteGroup").put("error", Errors.forCode(one.errorCode()).name());
    }
}
