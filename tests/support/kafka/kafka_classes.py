"""Kafka's own record classes, called through py4j in a JVM; they decide what is right.

The loop over the records runs inside the JVM, so that thousands of records take one call. Janino compiles it; py4j
and Janino are parts of pyspark.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from groupreplay.streaming.local.broker import DEFAULT_VERSION
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.platforms import find_java
from support import class_archives

_SOURCE = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class Oracle {
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final ObjectMapper mapper = new ObjectMapper();

    private static byte[] next(ByteBuffer in) {
        int size = in.getInt();
        if (size < 0) return null;
        byte[] bytes = new byte[size];
        in.get(bytes);
        return bytes;
    }

    private static void put(DataOutputStream out, byte[] bytes) throws Exception {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) out.write(bytes);
    }

    private String json(CoordinatorRecord record) {
        ObjectNode json = mapper.createObjectNode();
        ObjectNode key = json.putObject("key");
        key.put("type", record.key().apiKey());
        key.set("data", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        if (record.value() == null) {
            json.set("value", NullNode.getInstance());
        } else {
            short version = record.value().version();
            ObjectNode value = json.putObject("value");
            value.put("version", version);
            value.set("data", CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                record.value().message(), version));
        }
        return json.toString();
    }

    public byte[] read(byte[] frames) throws Exception {
        ByteBuffer in = ByteBuffer.wrap(frames);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        while (in.hasRemaining()) {
            byte[] key = next(in);
            byte[] value = next(in);
            try {
                CoordinatorRecord record = serde.deserialize(
                    ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value));
                put(out, json(record).getBytes("UTF-8"));
                put(out, serde.serializeKey(record));
                put(out, serde.serializeValue(record));
            } catch (RuntimeException e) {
                put(out, mapper.createObjectNode().put("error", e.toString()).toString().getBytes("UTF-8"));
                put(out, null);
                put(out, null);
            }
        }
        return bytes.toByteArray();
    }

    private JsonNode blob(boolean isSubscription, byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        short version = ConsumerProtocol.deserializeVersion(buffer);
        short known = (short) Math.min(version, 3);
        ObjectNode json = mapper.createObjectNode();
        json.put("version", version);
        json.set("data", isSubscription
            ? ConsumerProtocolSubscriptionJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolSubscription(buffer, version), known)
            : ConsumerProtocolAssignmentJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolAssignment(buffer, version), known));
        return json;
    }

    public byte[] blobs(byte[] frames) throws Exception {
        ByteBuffer in = ByteBuffer.wrap(frames);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        while (in.hasRemaining()) {
            boolean isSubscription = next(in).length == 1;
            byte[] blob = next(in);
            try {
                put(out, blob(isSubscription, blob).toString().getBytes("UTF-8"));
            } catch (RuntimeException e) {
                put(out, mapper.createObjectNode().put("error", e.toString()).toString().getBytes("UTF-8"));
            }
        }
        return bytes.toByteArray();
    }

    public byte[] write(byte[] frames) throws Exception {
        ByteBuffer in = ByteBuffer.wrap(frames);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        while (in.hasRemaining()) {
            JsonNode json = mapper.readTree(next(in));
            short type = (short) json.get("key").get("type").intValue();
            ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(
                json.get("key").get("data"), type);
            JsonNode value = json.get("value");
            CoordinatorRecord record;
            if (value.isNull()) {
                record = CoordinatorRecord.tombstone(key);
            } else {
                short version = (short) value.get("version").intValue();
                record = CoordinatorRecord.record(key, new ApiMessageAndVersion(
                    CoordinatorRecordJsonConverters.readRecordValueFromJson(value.get("data"), type, version),
                    version));
            }
            put(out, serde.serializeKey(record));
            put(out, serde.serializeValue(record));
        }
        return bytes.toByteArray();
    }
}
"""


class Reading(NamedTuple):
    """A record as Kafka reads it: its JSON, and the bytes that Kafka writes for it."""

    json: dict[str, Any]
    key: bytes | None
    value: bytes | None


class KafkaClasses:
    """``GroupCoordinatorRecordSerde`` and the generated JSON converters of one Kafka release."""

    def __init__(self, oracle: Any, release: str) -> None:
        self._oracle, self.release = oracle, release

    def read(self, records: Sequence[tuple[bytes, bytes | None]]) -> list[Reading]:
        """Reads bytes with Kafka's classes; the JSON is ``{"error": ...}`` where Kafka throws."""
        response = self._oracle.read(_frames(part for record in records for part in record))
        parts = iter(list(_parts(bytes(response))))
        return [
            Reading(json.loads(text or b""), key, value)
            for text, key, value in zip(*[parts] * 3, strict=True)
        ]

    def blobs(self, given: Sequence[tuple[str, bytes]]) -> list[dict[str, Any]]:
        """Subscriptions and assignments as ``ConsumerProtocol`` reads them; ``{"error": ...}`` where it throws.

        ``given`` has ``subscription`` or ``assignment``, and the bytes.
        """
        framed = _frames(
            part for name, raw in given for part in (b"s" if name == "subscription" else b"", raw)
        )
        return [json.loads(text or b"") for text in _parts(bytes(self._oracle.blobs(framed)))]

    def write(self, records: Sequence[dict[str, Any]]) -> list[tuple[bytes, bytes | None]]:
        """The bytes that Kafka writes for its own JSON."""
        response = self._oracle.write(_frames(json.dumps(record).encode() for record in records))
        parts = iter(list(_parts(bytes(response))))
        return [(key or b"", value) for key, value in zip(*[parts] * 2, strict=True)]


def _frames(parts: Iterable[bytes | None]) -> bytearray:
    framed = bytearray()
    for part in parts:
        framed += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return framed


def _parts(framed: bytes) -> Iterator[bytes | None]:
    at = 0
    while at < len(framed):
        size = struct.unpack_from(">i", framed, at)[0]
        at += 4
        yield None if size < 0 else framed[at : at + size]
        at += max(size, 0)


def broker_jars(release: str = DEFAULT_VERSION) -> list[Path]:
    """The class path of a broker, its clients and its tools; by default those of the broker that tests use."""
    return jar_paths(f"broker-{release}")


def java_command(*words: object, jars: Sequence[Path] | None = None) -> list[str]:
    """The command line of a Java program, by default from the jars of the broker."""
    class_path = os.pathsep.join(map(str, jars or broker_jars()))
    shared = class_archives.options(class_archives.BROKER)
    return [
        str(find_java().executable),
        *class_archives.SHORT_LIVED,
        *shared,
        "-cp",
        class_path,
        *map(str, words),
    ]


class Jvm:
    """A JVM with these jars and a Java compiler. A context manager: the JVM ends on exit.

    ``can_freeze``: it keeps the objects that Python has dropped. Otherwise any thread of this process in which Python
    collects its garbage, one of librdkafka as well, calls the JVM and waits for as long as that is stopped.
    """

    def __init__(self, jars: Sequence[Path], *, can_freeze: bool = False) -> None:
        self._jars = jars
        self._can_freeze = can_freeze

    def __enter__(self) -> Jvm:
        import pyspark
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        spark = Path(pyspark.__file__).parent / "jars"
        ours = (jar for name in ("py4j", "janino", "commons-compiler") for jar in spark.glob(f"{name}-*.jar"))
        # An archive of classes is used where the class path begins with the jars that it was made from.
        first, *others = map(str, [*self._jars, *ours])
        port, token, self._process = launch_gateway(
            jarpath=first,
            classpath=os.pathsep.join(others),
            java_path=str(find_java().executable),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            javaopts=[*class_archives.SHORT_LIVED, *class_archives.options(class_archives.BROKER)],
        )
        parameters = GatewayParameters(
            port=port, auth_token=token, enable_memory_management=not self._can_freeze
        )
        self._gateway = JavaGateway(gateway_parameters=parameters)
        #: Its packages: ``packages.java.util`` is a package.
        self.packages = self._gateway.jvm
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._gateway.shutdown()
        self._process.stdin.close()
        self._process.wait(timeout=30)

    def make(self, source: str, name: str, *, uses: str | None = None) -> Any:
        """Compiles Java source and returns an object of the named class; ``uses`` is source that it may refer to."""
        compiler = self.packages.org.codehaus.janino.SimpleCompiler()
        if uses is not None:
            used = self.packages.org.codehaus.janino.SimpleCompiler()
            used.cook(uses)
            compiler.setParentClassLoader(used.getClassLoader())
        compiler.cook(source)
        return compiler.getClassLoader().loadClass(name).newInstance()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)


@contextmanager
def compiled(jars: Sequence[Path], source: str, name: str) -> Iterator[Any]:
    """An object of a Java class, from source, in a JVM with these jars that ends with the context."""
    with Jvm(jars) as jvm:
        yield jvm.make(source, name)


@contextmanager
def kafka_classes(release: str) -> Iterator[KafkaClasses]:
    """The classes of a release with a jar set, in a JVM that ends with the context."""
    with compiled(broker_jars(release), _SOURCE, "Oracle") as oracle:
        yield KafkaClasses(oracle, release)
