"""Members of streams and share groups: Kafka's Java clients, because librdkafka does not support these groups."""

from __future__ import annotations

SOURCE = """
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;

public class Members {
    private final Map streams = new HashMap();
    private final Map shares = new HashMap();

    public void startStreams(String servers, String group, String client, String in, String out,
            String folder, String protocol) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("application.id", group);
        settings.put("client.id", client);
        settings.put("reconnect.backoff.ms", "1000");
        settings.put("retry.backoff.ms", "500");
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) settings.put("heartbeat.interval.ms", "500");
        settings.put("state.dir", folder + "/" + client);
        settings.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        settings.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        Topology topology = new Topology();
        topology.addSource("in", new String[] {in});
        topology.addSink("out", out, new String[] {"in"});
        KafkaStreams instance = new KafkaStreams(topology, settings);
        instance.start();
        streams.put(client, instance);
    }

    public void closeStreams(String client) {
        CloseOptions leaving = CloseOptions.groupMembershipOperation(
            CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        ((KafkaStreams) streams.remove(client)).close(leaving.withTimeout(Duration.ofSeconds(30L)));
    }

    public void stopStreams(String client) {
        ((KafkaStreams) streams.remove(client)).close(Duration.ofSeconds(30L));
    }

    public void startShare(String servers, String group, String client, String topic) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("client.id", client);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        ShareLoop loop = new ShareLoop(new KafkaShareConsumer(settings), topic);
        loop.start();
        shares.put(client, loop);
    }

    public void closeShare(String client) throws Exception {
        ShareLoop loop = (ShareLoop) shares.remove(client);
        loop.running = false;
        loop.join();
    }
}

class ShareLoop extends Thread {
    public volatile boolean running = true;
    private final KafkaShareConsumer consumer;
    private final String topic;

    public ShareLoop(KafkaShareConsumer consumer, String topic) {
        this.consumer = consumer;
        this.topic = topic;
        setDaemon(true);
    }

    public void run() {
        consumer.subscribe(Collections.singletonList(topic));
        while (running) consumer.poll(Duration.ofMillis(100L));
        consumer.close();
    }
}
"""
