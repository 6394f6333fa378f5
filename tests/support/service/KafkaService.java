import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.share.persister.NoOpStatePersister;
import org.apache.kafka.server.util.PartitionMetadataClient;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import com.yammer.metrics.core.MetricsRegistry;

/** The virtual clock. */
class ServiceClock implements Time {
    volatile long now;

    public long milliseconds() { return now; }
    public long nanoseconds() { return now * 1000000L; }
    public void sleep(long ms) { throw new IllegalStateException("the coordinator sleeps"); }
    public void waitObject(Object on, Supplier condition, long deadline) {
        throw new IllegalStateException("the coordinator waits");
    }
}

/** Timers in virtual time; those of equal times run in the order in which they were set. */
class ServiceTimer implements Timer {
    private final List due = new ArrayList();
    private final ServiceClock clock;

    ServiceTimer(ServiceClock clock) { this.clock = clock; }

    public synchronized void add(TimerTask task) {
        long atMs = clock.now + task.delayMs;
        // A task without an entry counts as cancelled.
        new TimerTaskEntry(task, atMs);
        due.add(new Object[] {Long.valueOf(atMs), task});
    }

    public boolean advanceClock(long ms) { throw new IllegalStateException("advanced by the coordinator"); }

    public synchronized int size() { return due.size(); }

    public void close() { }

    synchronized long next(long most) {
        long first = most + 1;
        for (Iterator all = due.iterator(); all.hasNext();) {
            Object[] one = (Object[]) all.next();
            if (((TimerTask) one[1]).isCancelled()) all.remove();
            else first = Math.min(first, ((Long) one[0]).longValue());
        }
        return first;
    }

    synchronized TimerTask take(long atMs) {
        for (Iterator all = due.iterator(); all.hasNext();) {
            Object[] one = (Object[]) all.next();
            if (((Long) one[0]).longValue() != atMs) continue;
            all.remove();
            return (TimerTask) one[1];
        }
        return null;
    }
}

/** The log of the partition: appends fail, or are not replicated, as long as they are told to. */
class ServiceLog implements PartitionWriter {
    final List records = new ArrayList();
    final List batches = new ArrayList();
    volatile String failing = null;
    volatile boolean replicated = true;
    private PartitionWriter.Listener listener;

    public void registerListener(TopicPartition tp, PartitionWriter.Listener one) { listener = one; }

    public void deregisterListener(TopicPartition tp, PartitionWriter.Listener one) { listener = null; }

    public LogConfig config(TopicPartition tp) { return new LogConfig(new Properties()); }

    public long append(TopicPartition tp, VerificationGuard guard, MemoryRecords written, short version) {
        if (failing != null) throw Errors.valueOf(failing).exception();
        for (Iterator all = written.batches().iterator(); all.hasNext();) {
            MutableRecordBatch batch = (MutableRecordBatch) all.next();
            batches.add(Integer.valueOf(records.size()));
            for (Iterator inside = batch.iterator(); inside.hasNext();) {
                Record record = (Record) inside.next();
                boolean control = batch.isControlBatch();
                records.add(new Object[] {
                    bytes(record.key()), bytes(record.value()), Long.valueOf(record.timestamp()),
                    Long.valueOf(batch.producerId()), Boolean.valueOf(control)
                });
            }
        }
        if (replicated) replicate(tp);
        return records.size();
    }

    void replicate(TopicPartition tp) {
        if (listener != null) listener.onHighWatermarkUpdated(tp, records.size());
    }

    private static byte[] bytes(ByteBuffer from) {
        if (from == null) return null;
        byte[] bytes = new byte[from.remaining()];
        ByteBuffer copy = (ByteBuffer) from.duplicate();
        copy.get(bytes);
        return bytes;
    }

    public CompletableFuture maybeStartTransactionVerification(
        TopicPartition tp, String id, long producerId, short epoch, int version
    ) {
        return CompletableFuture.completedFuture(VerificationGuard.SENTINEL);
    }

    public CompletableFuture deleteRecords(TopicPartition tp, long offset) {
        return CompletableFuture.completedFuture(null);
    }
}

/** Loads when it is told to. */
class ServiceLoader implements CoordinatorLoader {
    private final ServiceLog log;
    private final ServiceClock clock;
    private CompletableFuture loading;
    private CoordinatorPlayback playback;

    ServiceLoader(ServiceLog log, ServiceClock clock) {
        this.log = log;
        this.clock = clock;
    }

    public CompletableFuture load(TopicPartition tp, CoordinatorPlayback to) {
        playback = to;
        loading = new CompletableFuture();
        return loading;
    }

    public void close() { }

    void finish() {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        long offset = 0;
        for (Iterator all = log.records.iterator(); all.hasNext(); offset++) {
            Object[] one = (Object[]) all.next();
            long producerId = ((Long) one[3]).longValue();
            if (((Boolean) one[4]).booleanValue()) {
                // The key of a marker: version and type, each of two bytes.
                boolean committed = ByteBuffer.wrap((byte[]) one[0]).getShort(2) == 1;
                playback.replayEndTransactionMarker(
                    producerId, (short) 0, committed ? TransactionResult.COMMIT : TransactionResult.ABORT);
                continue;
            }
            byte[] value = (byte[]) one[1];
            playback.replay(offset, producerId, (short) 0, serde.deserialize(
                ByteBuffer.wrap((byte[]) one[0]), value == null ? null : ByteBuffer.wrap(value)));
        }
        if (offset > 0) {
            playback.updateLastWrittenOffset(offset);
            playback.updateLastCommittedOffset(offset);
        }
        loading.complete(new CoordinatorLoader.LoadSummary(clock.now, clock.now, 0L, offset, 0L));
    }
}

class NoOffsets implements PartitionMetadataClient {
    public Map listLatestOffsets(Set partitions) { return new HashMap(); }

    public void close() { }
}

class OnePartition implements IntSupplier {
    public int getAsInt() { return 1; }
}

/** Kafka's whole group coordinator of one partition of the offsets topic, in virtual time, above a log in memory. */
public class KafkaService {
    /** Random bytes for all of the JVM's UUIDs; the last ones are those of the newest member id. */
    public static class Drawn extends SecureRandomSpi {
        static final Random NUMBERS = new Random(0);
        static volatile byte[] last = null;

        protected void engineSetSeed(byte[] seed) { }

        protected void engineNextBytes(byte[] bytes) {
            NUMBERS.nextBytes(bytes);
            last = (byte[]) bytes.clone();
        }

        protected byte[] engineGenerateSeed(int count) { return new byte[count]; }
    }

    /** Names the class above for "SecureRandom". */
    public static class DrawnProvider extends Provider {
        public DrawnProvider() {
            super("Drawn", 1.0, "deterministic");
            put("SecureRandom.Drawn", Drawn.class.getName());
        }
    }

    private static final Base64.Encoder TEXT = Base64.getEncoder();
    private static final TopicPartition PARTITION = new TopicPartition("__consumer_offsets", 0);
    private final ObjectMapper mapper = new ObjectMapper();
    private final ServiceClock clock = new ServiceClock();
    private ServiceTimer timer;
    private ServiceLog log;
    private ServiceLoader loader;
    private GroupCoordinatorService service;
    private MetadataImage image;
    private Map open;
    private int epoch;
    private int offset;
    private int shown;

    public KafkaService() { Security.insertProviderAt(new DrawnProvider(), 1); }

    /** A new broker that is elected and has loaded: {"seed", "now", "config": {name: value}}. */
    public void begin(String text) throws Exception {
        if (service != null) service.shutdown();
        JsonNode json = mapper.readTree(text);
        Drawn.NUMBERS.setSeed(json.get("seed").longValue());
        clock.now = json.get("now").longValue();
        timer = new ServiceTimer(clock);
        log = new ServiceLog();
        loader = new ServiceLoader(log, clock);
        open = new HashMap();
        image = MetadataImage.EMPTY;
        epoch = 0;
        shown = 0;
        Map settings = new HashMap();
        for (Iterator names = json.get("config").fieldNames(); names.hasNext();) {
            String name = (String) names.next();
            settings.put(name, json.get("config").get(name).asText());
        }
        settings.put("group.coordinator.append.linger.ms", "0");
        settings.put("group.coordinator.threads", "1");
        GroupCoordinatorConfig config =
            new GroupCoordinatorConfig(new AbstractConfig(GroupCoordinatorConfig.CONFIG_DEF, settings, false));
        service = new GroupCoordinatorService.Builder(0, config)
            .withWriter(log)
            .withLoader(loader)
            .withTime(clock)
            .withTimer(timer)
            .withCoordinatorRuntimeMetrics(new GroupCoordinatorRuntimeMetrics(new Metrics()))
            .withGroupCoordinatorMetrics(new GroupCoordinatorMetrics(new MetricsRegistry(), new Metrics()))
            .withGroupConfigManager(
                new GroupConfigManager(new HashMap(), config, ShareGroupConfig.fromProps(new HashMap())))
            .withPersister(new NoOpStatePersister())
            .withAuthorizerPlugin(Optional.empty())
            .withPartitionMetadataClient(new NoOffsets())
            .build();
        service.startup(new OnePartition());
        service.onMetadataUpdate(new MetadataDelta.Builder().setImage(image).build(), image);
        elect();
        load();
    }

    /** A topic is created or gets more partitions. */
    public void topic(String name, byte[] id, int partitions) throws Exception {
        ByteBuffer bits = ByteBuffer.wrap(id);
        Uuid uuid = new Uuid(bits.getLong(), bits.getLong());
        int known = image.topics().getTopic(name) == null ? 0 : image.topics().getTopic(name).partitions().size();
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        if (known == 0) delta.replay(new TopicRecord().setName(name).setTopicId(uuid));
        for (int number = known; number < partitions; number++) {
            List replicas = Collections.singletonList(Integer.valueOf(0));
            delta.replay(new PartitionRecord().setTopicId(uuid).setPartitionId(number)
                .setReplicas(replicas).setIsr(replicas).setLeader(0));
        }
        image = delta.apply(new MetadataProvenance(++offset, 0, 0L, true));
        service.onMetadataUpdate(delta, image);
        settle();
    }

    /** The broker leads the partition and begins to load it. */
    public void elect() throws Exception {
        service.onElection(0, ++epoch);
        settle();
    }

    /** The broker has loaded the partition. */
    public void load() throws Exception {
        loader.finish();
        settle();
    }

    /** The broker leads the partition no more. */
    public void resign() throws Exception {
        service.onResignation(0, OptionalInt.of(++epoch));
        settle();
    }

    /** Appends fail with this error until it is null. */
    public void fail(String error) { log.failing = error; }

    /** Whether the other replicas have what is appended. */
    public void replicate(boolean all) throws Exception {
        log.replicated = all;
        if (all) log.replicate(PARTITION);
        settle();
    }

    /** Runs the timers that are due by now, each at its own time. */
    public void advance(long now) throws Exception {
        for (long next = timer.next(now); next <= now; next = timer.next(now)) {
            clock.now = Math.max(clock.now, next);
            TimerTask task = timer.take(next);
            if (!task.isCancelled()) task.run();
            settle();
        }
        clock.now = now;
    }

    /** Waits until all events of the partition are handled: they are queued, and this comes behind them. */
    private void settle() throws Exception {
        for (int number = 0; number < 3; number++) {
            service.describeGroups(context(ApiKeys.DESCRIBE_GROUPS, 5, "nobody", "10.0.0.9"),
                Collections.singletonList("nothing")).get(30, TimeUnit.SECONDS);
        }
    }

    private RequestContext context(ApiKeys key, int version, String client, String host) throws Exception {
        return new RequestContext(
            new RequestHeader(key, (short) version, client, 0), "1", InetAddress.getByName(host),
            KafkaPrincipal.ANONYMOUS, new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, false);
    }

    /** Sends a request in Kafka's own JSON; its answer comes now or later. */
    public void send(int number, String api, int asked, String client, String host, String text) throws Exception {
        Drawn.last = null;
        ApiKeys key = ApiKeys.valueOf(api);
        short version = asked < 0 ? key.latestVersion() : (short) asked;
        RequestContext context = context(key, version, client, host);
        JsonNode json = mapper.readTree(text);
        BufferSupplier buffers = BufferSupplier.NO_CACHING;
        CompletableFuture answer;
        if (key == ApiKeys.JOIN_GROUP) {
            answer = service.joinGroup(context, JoinGroupRequestDataJsonConverter.read(json, version), buffers);
        } else if (key == ApiKeys.SYNC_GROUP) {
            answer = service.syncGroup(context, SyncGroupRequestDataJsonConverter.read(json, version), buffers);
        } else if (key == ApiKeys.HEARTBEAT) {
            answer = service.heartbeat(context, HeartbeatRequestDataJsonConverter.read(json, version));
        } else if (key == ApiKeys.LEAVE_GROUP) {
            answer = service.leaveGroup(context, LeaveGroupRequestDataJsonConverter.read(json, version));
        } else if (key == ApiKeys.CONSUMER_GROUP_HEARTBEAT) {
            answer = service.consumerGroupHeartbeat(
                context, ConsumerGroupHeartbeatRequestDataJsonConverter.read(json, version));
        } else if (key == ApiKeys.OFFSET_COMMIT) {
            answer = service.commitOffsets(
                context, named(OffsetCommitRequestDataJsonConverter.read(json, version)), buffers);
        } else if (key == ApiKeys.TXN_OFFSET_COMMIT) {
            answer = service.commitTransactionalOffsets(
                context, TxnOffsetCommitRequestDataJsonConverter.read(json, version), buffers);
        } else if (key == ApiKeys.DESCRIBE_GROUPS) {
            answer = service.describeGroups(context, Collections.singletonList(json.get("group").textValue()));
        } else if (key == ApiKeys.DELETE_GROUPS) {
            answer = service.deleteGroups(
                context, Collections.singletonList(json.get("group").textValue()), buffers);
        } else if (key == ApiKeys.OFFSET_DELETE) {
            answer = service.deleteOffsets(context, OffsetDeleteRequestDataJsonConverter.read(json, version), buffers);
        } else {
            // The broker translates the errors of this one for the transaction coordinator.
            TransactionResult result =
                json.get("committed").booleanValue() ? TransactionResult.COMMIT : TransactionResult.ABORT;
            answer = service.completeTransaction(
                PARTITION, json.get("producer").longValue(), (short) 0, 0, result, (short) 1);
        }
        // The newest version has all fields, except the names of topics.
        short newest = key == ApiKeys.OFFSET_COMMIT ? version : key.latestVersion();
        open.put(Integer.valueOf(number), new Object[] {answer, Short.valueOf(newest)});
        settle();
    }

    /** Adds the ids of topics, as the broker does before it asks the coordinator. */
    private OffsetCommitRequestData named(OffsetCommitRequestData data) {
        for (Iterator all = data.topics().iterator(); all.hasNext();) {
            OffsetCommitRequestData.OffsetCommitRequestTopic one =
                (OffsetCommitRequestData.OffsetCommitRequestTopic) all.next();
            if (image.topics().getTopic(one.name()) != null) {
                one.setTopicId(image.topics().getTopic(one.name()).id());
            }
        }
        return data;
    }

    /** What has come since the last call: answers, and records of the log. */
    public String told() throws Exception {
        ObjectNode json = mapper.createObjectNode();
        ArrayNode answers = json.putArray("answers");
        for (Iterator all = open.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            Object[] pair = (Object[]) one.getValue();
            CompletableFuture answer = (CompletableFuture) pair[0];
            if (!answer.isDone()) continue;
            all.remove();
            ObjectNode told = answers.addObject().put("number", ((Integer) one.getKey()).intValue());
            try {
                plain(told, answer.get(), ((Short) pair[1]).shortValue());
            } catch (Exception failed) {
                Throwable cause = failed.getCause() == null ? failed : failed.getCause();
                told.put("error", Errors.forException(cause).name());
            }
        }
        if (Drawn.last != null) json.put("drawn", TEXT.encodeToString(Drawn.last));
        ArrayNode written = json.putArray("records");
        for (; shown < log.records.size(); shown++) {
            Object[] one = (Object[]) log.records.get(shown);
            ObjectNode record = written.addObject().put("at", ((Long) one[2]).longValue())
                .put("producer", ((Long) one[3]).longValue()).put("control", ((Boolean) one[4]).booleanValue())
                .put("first", log.batches.contains(Integer.valueOf(shown)));
            record.put("key", TEXT.encodeToString((byte[]) one[0]));
            record.put("value", one[1] == null ? null : TEXT.encodeToString((byte[]) one[1]));
        }
        return json.toString();
    }

    private void plain(ObjectNode told, Object answer, short version) throws Exception {
        if (answer instanceof JoinGroupResponseData) {
            told.set("data", JoinGroupResponseDataJsonConverter.write((JoinGroupResponseData) answer, version));
        } else if (answer instanceof SyncGroupResponseData) {
            told.set("data", SyncGroupResponseDataJsonConverter.write((SyncGroupResponseData) answer, version));
        } else if (answer instanceof HeartbeatResponseData) {
            told.set("data", HeartbeatResponseDataJsonConverter.write((HeartbeatResponseData) answer, version));
        } else if (answer instanceof LeaveGroupResponseData) {
            told.set("data", LeaveGroupResponseDataJsonConverter.write((LeaveGroupResponseData) answer, version));
        } else if (answer instanceof ConsumerGroupHeartbeatResponseData) {
            told.set("data", ConsumerGroupHeartbeatResponseDataJsonConverter.write(
                (ConsumerGroupHeartbeatResponseData) answer, version));
        } else if (answer instanceof OffsetCommitResponseData) {
            told.set("data", OffsetCommitResponseDataJsonConverter.write((OffsetCommitResponseData) answer, version));
        } else if (answer instanceof TxnOffsetCommitResponseData) {
            told.set("data",
                TxnOffsetCommitResponseDataJsonConverter.write((TxnOffsetCommitResponseData) answer, version));
        } else if (answer instanceof OffsetDeleteResponseData) {
            told.set("data", OffsetDeleteResponseDataJsonConverter.write((OffsetDeleteResponseData) answer, version));
        } else if (answer instanceof DeleteGroupsResponseData.DeletableGroupResultCollection) {
            DeleteGroupsResponseData.DeletableGroupResult one = (DeleteGroupsResponseData.DeletableGroupResult)
                ((DeleteGroupsResponseData.DeletableGroupResultCollection) answer).iterator().next();
            told.put("error", Errors.forCode(one.errorCode()).name());
        } else if (answer instanceof List) {
            DescribeGroupsResponseData.DescribedGroup one =
                (DescribeGroupsResponseData.DescribedGroup) ((List) answer).get(0);
            told.put("error", Errors.forCode(one.errorCode()).name()).put("state", one.groupState())
                .put("members", one.members().size());
        } else {
            told.put("error", "NONE");
        }
    }
}
