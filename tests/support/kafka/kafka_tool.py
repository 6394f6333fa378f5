"""Kafka's command for groups, in Java source for ``kafka_classes.Jvm``."""

from __future__ import annotations

#: Kafka's tool in a JVM that stays: its start takes longer than the tool does.
TOOL = """
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

public class Tool {
    public String run(String words) throws Exception {
        PrintStream before = System.out;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        System.setOut(new PrintStream(bytes, true, "UTF-8"));
        try {
            ConsumerGroupCommand.main(words.split(" "));
        } finally {
            System.setOut(before);
        }
        return bytes.toString("UTF-8");
    }
}
"""
