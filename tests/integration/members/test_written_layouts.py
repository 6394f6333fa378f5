"""Each known layout beside the classes with which brokers write: Log4j 1 (Kafka to 3.9) and Log4j 2 (since 4.0).

The live tests of the broker's log read what SLF4J's simple logger writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.broker_log.files import LogFiles
from groupreplay.streaming.broker_log.layouts import LAYOUTS, layout
from groupreplay.streaming.broker_log.lines import broker_line
from groupreplay.streaming.local.jars import fetched_jars
from support.kafka.kafka_classes import broker_jars, compiled

pytestmark = pytest.mark.broker

#: What Kafka 3.9.1 has for Log4j 1.
RELOAD4J = {
    "ch.qos.reload4j:reload4j:1.2.25": "e71115175c4b080cf51dd72097165ea001ff9fafdc4f79d88049d0b1ecca979c"
}
LOG4J_1 = """
import java.util.TimeZone;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.PatternLayout;
import org.apache.log4j.spi.LocationInfo;
import org.apache.log4j.spi.LoggingEvent;

public class Writer {
    public String line(String pattern, long at, String logger, String thread, String message) {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        LoggingEvent event = new LoggingEvent(logger, Logger.getLogger(logger), at, Level.INFO, message, thread,
            null, null, new LocationInfo("F.scala", logger, "log", "66"), null);
        return new PatternLayout(pattern).format(event);
    }
}
"""
LOG4J_2 = """
import java.util.TimeZone;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.impl.Log4jLogEvent;
import org.apache.logging.log4j.core.layout.PatternLayout;
import org.apache.logging.log4j.message.SimpleMessage;

public class Writer {
    public String line(String pattern, long at, String logger, String thread, String message) {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Log4jLogEvent event = Log4jLogEvent.newBuilder().setLoggerName(logger).setLevel(Level.INFO)
            .setMessage(new SimpleMessage(message)).setThreadName(thread).setTimeMillis(at)
            .setSource(new StackTraceElement(logger, "log", "F.scala", 66)).build();
        return PatternLayout.newBuilder().withPattern(pattern).build().toSerializable(event);
    }
}
"""
AT_MS = 1_790_000_000_123
#: Logger, thread and message of both coordinators; a client's reason may look like the end of a line.
SAID = (
    (
        "kafka.coordinator.group.GroupCoordinator",
        "executor-Heartbeat",
        "[GroupCoordinator 1]: Member a-1 in group g has failed, removing it from the group",
    ),
    (
        "org.apache.kafka.coordinator.group.GroupMetadataManager",
        "group-coordinator-event-processor-0",
        "[GroupCoordinator id=1 topic=__consumer_offsets partition=7] Preparing to rebalance group g in state Stable "
        "with old generation 3 (reason: Removing member a-1 on LeaveGroup; client reason: bye (k.Log) [t]).",
    ),
    (
        "kafka.authorizer.logger",
        "data-plane-kafka-request-handler-3",
        "Principal = User:ops is Allowed operation = DELETE from host = 10.0.0.1 on resource = Group:LITERAL:g for "
        "request = DeleteGroups with resourceRefCount = 1 based on rule MatchingAcl(acl=x)",
    ),
)


@pytest.fixture(scope="module", params=["Log4j 1", "Log4j 2"])
def writer(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An object that writes a line in a layout."""
    if request.param == "Log4j 1":
        made = compiled(fetched_jars("reload4j", RELOAD4J), LOG4J_1, "Writer")
    else:
        made = compiled(broker_jars(), LOG4J_2, "Writer")
    with made as found:
        yield found


@pytest.mark.parametrize("pattern", LAYOUTS.values(), ids=LAYOUTS)
def test_a_line_that_the_class_has_written(writer: Any, pattern: str, tmp_path: Path) -> None:
    """Time and message as given; a file of such lines is known to have the layout, and says the same."""
    log, lines = tmp_path / "server.log", [writer.line(pattern, AT_MS, *said) for said in SAID]
    at_ms = AT_MS if "ss}" not in pattern else AT_MS - AT_MS % 1_000
    assert [layout(pattern).message(line.rstrip("\n")) for line in lines] == [
        (at_ms, message) for *_, message in SAID
    ]
    log.write_text("".join(lines))
    assert [(timed.at_ms, timed.line) for timed in LogFiles([log]).lines()] == [
        (at_ms, broker_line(message)) for *_, message in SAID
    ]
