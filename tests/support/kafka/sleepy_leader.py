"""Kafka's Java consumer with an assignor that sleeps: the group's leader then does not send SyncGroup."""

from __future__ import annotations

SOURCE = """
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class SleepyLeader {
    public static volatile long sleepMs = 0L;
    private final Map members = new HashMap();

    public void join(String servers, String group, String client, String topic, int timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("client.id", client);
        settings.put("max.poll.interval.ms", String.valueOf(timeoutMs));
        settings.put("session.timeout.ms", "30000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("partition.assignment.strategy", Collections.singletonList(SleepyAssignor.class));
        SleepyLoop loop = new SleepyLoop(new KafkaConsumer(settings), topic);
        loop.start();
        members.put(client, loop);
    }

    public void sleep(long ms) {
        sleepMs = ms;
    }

    public int owned(String client) {
        return ((SleepyLoop) members.get(client)).owned;
    }

    public void stop() throws Exception {
        for (Object one : members.values()) ((SleepyLoop) one).running = false;
        for (Object one : members.values()) ((SleepyLoop) one).join();
    }
}

class SleepyLoop extends Thread {
    public volatile boolean running = true;
    public volatile int owned = 0;
    private final KafkaConsumer consumer;
    private final String topic;

    public SleepyLoop(KafkaConsumer consumer, String topic) {
        this.consumer = consumer;
        this.topic = topic;
        setDaemon(true);
    }

    public void run() {
        consumer.subscribe(Collections.singletonList(topic));
        while (running) {
            consumer.poll(Duration.ofMillis(100L));
            owned = consumer.assignment().size();
        }
        consumer.close();
    }
}

public class SleepyAssignor extends RangeAssignor {
    public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
        long until = System.currentTimeMillis() + SleepyLeader.sleepMs;
        SleepyLeader.sleepMs = 0L;
        while (System.currentTimeMillis() < until) {
            try { Thread.sleep(50L); } catch (InterruptedException e) { throw new RuntimeException(e); }
        }
        return super.assign(metadata, subscriptions);
    }
}
"""
