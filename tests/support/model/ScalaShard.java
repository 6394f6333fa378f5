import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import java.util.concurrent.ScheduledFuture;
import kafka.cluster.Partition;
import kafka.coordinator.group.GroupCoordinator;
import kafka.coordinator.group.GroupCoordinatorAdapter;
import kafka.coordinator.group.GroupMetadata;
import kafka.log.UnifiedLog;
import kafka.server.ActionQueue;
import kafka.server.DelayedOperationPurgatory;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRequestHandler;
import kafka.server.ReplicaManager;
import kafka.server.RequestLocal;
import kafka.server.TransactionSupportedOperation;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitResponseData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetDeleteResponseData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.message.TxnOffsetCommitResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
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
        long base = shard.append((MemoryRecords) entry._2());
        callback.apply(new scala.collection.immutable.Map.Map1(
            entry._1(), new ProduceResponse.PartitionResponse(Errors.NONE, base, -1L, 0L)));
    }

    public void maybeStartTransactionVerificationForPartition(
        TopicPartition partition, String id, long producer, short epoch, int sequence, scala.Function1 callback,
        TransactionSupportedOperation operation
    ) {
        callback.apply(new scala.Tuple2(Errors.NONE, VerificationGuard.SENTINEL));
    }

    public scala.Option getLog(TopicPartition partition) { return new scala.Some(shard.log); }

    public scala.Option getLogEndOffset(TopicPartition partition) { return new scala.Some(Long.valueOf(shard.end)); }

    public scala.Function1 appendRecords$default$8() { return null; }

    public ActionQueue appendRecords$default$10() { return null; }

    public scala.Option getMagic(TopicPartition partition) { return new scala.Some(Byte.valueOf((byte) 2)); }

    public scala.Option onlinePartition(TopicPartition partition) { return new scala.Some(shard.partition); }

    public void tryCompleteActions() { }
}

/** What was appended, in memory. Never constructed. */
class ReadLog extends UnifiedLog {
    ScalaShard shard;

    ReadLog() { super(0L, null, null, 0, null, null, null, false, false, null); }

    public long logStartOffset() { return 0L; }

    public FetchDataInfo read(long from, int most, FetchIsolation isolation, boolean least) {
        for (Iterator all = shard.appended.iterator(); all.hasNext();) {
            MemoryRecords records = (MemoryRecords) all.next();
            if (records.firstBatch().baseOffset() >= from) {
                return new FetchDataInfo(new LogOffsetMetadata(from), records);
            }
        }
        return new FetchDataInfo(new LogOffsetMetadata(from), MemoryRecords.EMPTY);
    }
}

/** Runs at once what the coordinator has another thread do: loads, unloads and ends of transactions. */
class Now extends KafkaScheduler {
    Now() { super(1); }

    public void startup() { }

    public void shutdown() { }

    public ScheduledFuture schedule(String name, Runnable task, long delay, long period) {
        task.run();
        return null;
    }
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
    ReadLog log;
    List appended;
    long end;
    private int epoch;
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
        appended = new ArrayList();
        end = 0L;
        epoch = 1;
        start();
        if (old != null) old.shutdown();
        timers = new Timers(clock);
        Properties settings = new Properties();
        // Brokers of a controller quorum refuse old versions of the inter-broker protocol.
        settings.put("zookeeper.connect", "localhost:1");
        settings.put("broker.id", "1");
        for (Iterator names = json.get("config").fieldNames(); names.hasNext();) {
            String name = (String) names.next();
            if (!name.startsWith("group.consumer")) settings.put(name, json.get("config").get(name).asText());
        }
        Log manager = (Log) unmade(Log.class);
        manager.shard = this;
        log = (ReadLog) unmade(ReadLog.class);
        log.shard = this;
        OffsetsPartition offsets = (OffsetsPartition) unmade(OffsetsPartition.class);
        offsets.shard = this;
        partition = offsets;
        DelayedOperationPurgatory heartbeats =
            new DelayedOperationPurgatory("Heartbeat", timers, 1, 1000, false, true);
        DelayedOperationPurgatory rebalances =
            new DelayedOperationPurgatory("Rebalance", timers, 1, 1000, false, true);
        old = kafka.coordinator.group.GroupCoordinator$.MODULE$.apply(
            KafkaConfig.fromProps(settings, false), manager, heartbeats, rebalances, clock, new Metrics());
        coordinator = new GroupCoordinatorAdapter(old, clock);
        // Without the scheduled check of the offsets' retention, which runs in another thread at once.
        Field scheduler = old.groupManager().getClass().getDeclaredField("scheduler");
        scheduler.setAccessible(true);
        ((KafkaScheduler) scheduler.get(old.groupManager())).shutdown();
        scheduler.set(old.groupManager(), new Now());
        KafkaRequestHandler.setBypassThreadCheck(true);
        old.startup(new One(), false);
        old.onElection(0, epoch);
    }

    /** The number of partitions of the offsets topic. */
    static class One extends scala.runtime.AbstractFunction0 {
        public Object apply() { return Integer.valueOf(1); }
    }

    /** Topics are of no meaning to this coordinator. */
    public void topic(String name, byte[] id, int partitions, String racks) { }

    /** A topic is deleted, with any partition that may have an offset. */
    public String deleteTopic(String name, long now) throws Exception {
        start();
        serve(now);
        List partitions = new ArrayList();
        for (int number = 0; number < 16; number++) partitions.add(new TopicPartition(name, number));
        old.handleDeletedPartitions(
            scala.jdk.javaapi.CollectionConverters.asScala(partitions).toSeq(), RequestLocal.NoCaching());
        return told();
    }

    /** Another broker becomes the coordinator: this one, which has forgotten everything but the log. */
    public String move(long now) throws Exception {
        start();
        serve(now);
        old.onResignation(0, OptionalInt.of(++epoch));
        old.onElection(0, ++epoch);
        return told();
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
        try {
            request(kind, number, mapper.readTree(text));
        } catch (RuntimeException thrown) {
            // The broker answers for a handler that throws.
            open.remove(open.size() - 1);
            answer(number, "threw").put("error", Errors.forException(thrown).name()).put("detail", thrown.toString());
        }
        return told();
    }

    public String cleanUp(long now) throws Exception {
        start();
        serve(now);
        old.groupManager().cleanupGroupMetadata();
        return told();
    }

    /** The broker leads the partition no more. */
    public String resign(long now) throws Exception {
        start();
        serve(now);
        old.onResignation(0, OptionalInt.of(++epoch));
        return told();
    }

    /** The broker leads the partition again and has begun to load it. */
    public void beginLoading() { old.groupManager().addLoadingPartition(0); }

    /** A record that another broker has written. */
    public void put(byte[] key, byte[] value) {
        append(MemoryRecords.withRecords(Compression.NONE, new SimpleRecord[] {new SimpleRecord(clock.now, key, value)}));
    }

    /** Whether consumers as well as producers have committed in this generation. */
    public boolean mixed() {
        scala.Option found = old.groupManager().getGroup(group);
        return !found.isEmpty() && !((GroupMetadata) found.get()).hasReceivedConsistentOffsetCommits();
    }

    /** The committed offsets of the group: {topic: {partition: offset}}. */
    public String offsets() throws Exception {
        ObjectNode json = mapper.createObjectNode();
        scala.Option found = old.groupManager().getGroup(group);
        if (found.isEmpty()) return json.toString();
        Map all = scala.jdk.javaapi.CollectionConverters.asJava(((GroupMetadata) found.get()).allOffsets());
        for (Iterator entries = all.entrySet().iterator(); entries.hasNext();) {
            Map.Entry one = (Map.Entry) entries.next();
            TopicPartition place = (TopicPartition) one.getKey();
            ObjectNode partitions = (ObjectNode) json.get(place.topic());
            if (partitions == null) partitions = json.putObject(place.topic());
            partitions.put(
                String.valueOf(place.partition()), ((kafka.common.OffsetAndMetadata) one.getValue()).offset());
        }
        return json.toString();
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

    /** Appends records and returns the offset of the first. */
    long append(MemoryRecords records) {
        long base = end;
        for (Iterator all = records.batches().iterator(); all.hasNext();) {
            MutableRecordBatch batch = (MutableRecordBatch) all.next();
            end += batch.lastOffset() - batch.baseOffset() + 1;
            batch.setLastOffset(end - 1);
        }
        appended.add(records);
        if (records.firstBatch().isControlBatch()) return base;
        ArrayNode operation = operations.addObject().put("at", clock.now).putArray("records");
        for (Iterator all = records.records().iterator(); all.hasNext();) {
            Record record = (Record) all.next();
            ArrayNode pair = operation.addArray();
            pair.add(TEXT.encodeToString(raw(record.key())));
            if (record.hasValue()) pair.add(TEXT.encodeToString(raw(record.value())));
            else pair.addNull();
        }
        return base;
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
            if (answer instanceof JoinGroupResponseData) {
                Requests.joined(answer(one.number, "JoinGroup"), (JoinGroupResponseData) answer);
            }
            else Requests.synced(answer(one.number, "SyncGroup"), (SyncGroupResponseData) answer);
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
        one.answer = coordinator.joinGroup(
            Requests.joinContext(json), Requests.join(group, json), BufferSupplier.NO_CACHING);
    }

    private void sync(int number, JsonNode json) throws Exception {
        Open one = new Open(number);
        open.add(one);
        one.answer = coordinator.syncGroup(
            Requests.context(ApiKeys.SYNC_GROUP), Requests.sync(group, json), BufferSupplier.NO_CACHING);
    }

    private void beat(int number, JsonNode json) throws Exception {
        HeartbeatRequestData data = Requests.beat(group, json);
        HeartbeatResponseData told =
            (HeartbeatResponseData) coordinator.heartbeat(Requests.context(ApiKeys.HEARTBEAT), data).get();
        answer(number, "ClassicHeartbeat").put("error", Errors.forCode(told.errorCode()).name());
    }

    private void leave(int number, JsonNode json) throws Exception {
        LeaveGroupRequestData data = Requests.leave(group, json);
        LeaveGroupResponseData told =
            (LeaveGroupResponseData) coordinator.leaveGroup(Requests.context(ApiKeys.LEAVE_GROUP), data).get();
        Requests.left(answer(number, "LeaveGroup"), told);
    }

    private void commit(int number, JsonNode json) throws Exception {
        if (!json.get("producer_id").isNull()) {
            commitInTransaction(number, json);
            return;
        }
        OffsetCommitRequestData data = Requests.commit(group, json);
        OffsetCommitResponseData told = (OffsetCommitResponseData) coordinator.commitOffsets(
            Requests.commitContext(json), data, BufferSupplier.NO_CACHING).get();
        OffsetCommitResponseData.OffsetCommitResponseTopic topic =
            (OffsetCommitResponseData.OffsetCommitResponseTopic) told.topics().get(0);
        OffsetCommitResponseData.OffsetCommitResponsePartition one =
            (OffsetCommitResponseData.OffsetCommitResponsePartition) topic.partitions().get(0);
        answer(number, "OffsetCommit").put("error", Errors.forCode(one.errorCode()).name());
    }

    private void commitInTransaction(int number, JsonNode json) throws Exception {
        TxnOffsetCommitResponseData told = (TxnOffsetCommitResponseData) coordinator.commitTransactionalOffsets(
            Requests.context(ApiKeys.TXN_OFFSET_COMMIT), Requests.commitInTransaction(group, json),
            BufferSupplier.NO_CACHING).get();
        TxnOffsetCommitResponseData.TxnOffsetCommitResponseTopic topic =
            (TxnOffsetCommitResponseData.TxnOffsetCommitResponseTopic) told.topics().get(0);
        TxnOffsetCommitResponseData.TxnOffsetCommitResponsePartition one =
            (TxnOffsetCommitResponseData.TxnOffsetCommitResponsePartition) topic.partitions().get(0);
        answer(number, "OffsetCommit").put("error", Errors.forCode(one.errorCode()).name());
    }

    private void end(int number, JsonNode json) throws Exception {
        long producer = json.get("producer_id").longValue();
        boolean committed = json.get("committed").booleanValue();
        ControlRecordType type = committed ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        append(MemoryRecords.withEndTransactionMarker(
            0L, clock.now, 0, producer, (short) 0, new EndTransactionMarker(type, 0)));
        old.groupManager().handleTxnCompletion(
            producer, scala.jdk.javaapi.CollectionConverters.asScala(
                Collections.singleton(Integer.valueOf(0))).toSet(), committed);
        answer(number, "EndTransaction").put("error", "NONE");
    }

    private void deleteOffsets(int number, JsonNode json) throws Exception {
        OffsetDeleteRequestData data = Requests.deleteOffsets(group, json);
        OffsetDeleteResponseData told;
        try {
            told = (OffsetDeleteResponseData) coordinator.deleteOffsets(
                Requests.context(ApiKeys.OFFSET_DELETE), data, BufferSupplier.NO_CACHING).get();
        } catch (java.util.concurrent.ExecutionException thrown) {
            answer(number, "OffsetDelete").put("error", Errors.forException(thrown.getCause()).name());
            return;
        }
        ArrayNode refused = answer(number, "OffsetDelete")
            .put("error", Errors.forCode(told.errorCode()).name()).putArray("refused");
        Requests.refused(refused, told);
    }

    private void delete(int number) throws Exception {
        DeleteGroupsResponseData.DeletableGroupResultCollection told =
            (DeleteGroupsResponseData.DeletableGroupResultCollection)
                coordinator.deleteGroups(
                    Requests.context(ApiKeys.DELETE_GROUPS), Collections.singletonList(group), BufferSupplier.NO_CACHING).get();
        DeleteGroupsResponseData.DeletableGroupResult one =
            (DeleteGroupsResponseData.DeletableGroupResult) told.iterator().next();
        answer(number, "DeleteGroup").put("error", Errors.forCode(one.errorCode()).name());
    }
}
