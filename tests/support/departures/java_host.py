"""Kafka's Java consumers in a JVM of their own, which can be stopped or killed with all of them."""

from __future__ import annotations

SOURCE = """
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class JavaHost {
    private final Map members = new HashMap();

    public void start(String name, String topic, Map given) {
        Properties settings = new Properties();
        settings.putAll(given);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        JavaMember member = new JavaMember(settings, topic);
        member.start();
        members.put(name, member);
    }

    public void wish(String name, String wish) {
        ((JavaMember) members.get(name)).wish = wish;
    }

    public void block(String name) {
        ((JavaMember) members.get(name)).blocks = true;
    }

    public void remove(String servers, String group, String instance) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        AdminClient admin = AdminClient.create(settings);
        Collection one = Collections.singleton(new MemberToRemove(instance));
        try {
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(one)).all().get();
        } finally {
            admin.close();
        }
    }
}

class JavaMember extends Thread implements ConsumerRebalanceListener {
    public volatile String wish = "";
    public volatile boolean blocks = false;
    private final Properties settings;
    private final String topic;

    public JavaMember(Properties settings, String topic) {
        this.settings = settings;
        this.topic = topic;
        setDaemon(true);
    }

    public void onPartitionsAssigned(Collection partitions) {
    }

    public void onPartitionsLost(Collection partitions) {
        onPartitionsRevoked(partitions);
    }

    public void onPartitionsRevoked(Collection partitions) {
        try {
            while (blocks) Thread.sleep(1000L);
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        }
    }

    public void run() {
        KafkaConsumer consumer = new KafkaConsumer(settings);
        consumer.subscribe(Collections.singletonList(topic), this);
        while (wish.equals("")) consumer.poll(Duration.ofMillis(500L));
        if (wish.equals("close")) consumer.close();
        if (wish.equals("unsubscribe")) consumer.unsubscribe();
        try {
            while (!wish.equals("close")) Thread.sleep(1000L);
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        }
    }
}
"""
