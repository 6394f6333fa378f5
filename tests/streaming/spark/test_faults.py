"""What helps after a failure, from texts that Spark, Kafka's clients and the operating system have written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.local.platforms import line_name
from groupreplay.streaming.spark.faults import (
    Remedy,
    explained,
    failure_text,
    headline,
    is_only_unreported,
    known_fault,
    remedy,
)
from groupreplay.streaming.spark.query import TopicPlan, read_options
from support.job.jobs import last_batch
from support.job.progress import QueryError
from support.job.spark_sessions import small_session
from support.kafka.clients import make_topics, produce
from support.kafka.waiting import wait_until
from support.remedies import read_remedy

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker

#: The line whose connector cannot report a batch that its query has not planned (SPARK-55271).
UNREPORTED = "4.1"
CONSUMER = "org.apache.kafka.clients.consumer.Consumer"
KAFKA = "org.apache.kafka.common.errors"


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        ("org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device", Remedy.DISK),
        (
            "java.util.concurrent.TimeoutException: Cannot fetch record for offset 12 in 30000 milliseconds",
            Remedy.CLUSTER,
        ),
        ("java.io.IOException: Disk quota exceeded", Remedy.DISK),
        ("java.io.FileNotFoundException: /cp/offsets/.7.tmp (Read-only file system)", Remedy.DISK),
        ("java.io.FileNotFoundException: /cp/offsets/.7.tmp (Permission denied)", Remedy.DISK),
        ("java.nio.file.AccessDeniedException: /cp/state", Remedy.DISK),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", Remedy.DISK),
        ("PermissionError: [Errno 13] Permission denied: '/cp'", Remedy.DISK),
        ("org.rocksdb.RocksDBException: While fsync: Input/output error", Remedy.DISK),
        (
            f"[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error\nCaused by: {KAFKA}.TimeoutException: x\n"
            "Caused by: java.io.IOException: No space left on device",
            Remedy.DISK,
        ),
        (f"{KAFKA}.RecordTooLargeException: The request included a message larger than", Remedy.SMALLER),
        (f"{KAFKA}.NotEnoughReplicasException: Messages are rejected since there are fewer", Remedy.REPLICAS),
        (f"{KAFKA}.NotEnoughReplicasAfterAppendException: Messages are written to the log", Remedy.REPLICAS),
        (f"{KAFKA}.TimeoutException: Expiring 5 record(s) for events-0:30000 ms has passed", Remedy.REPLICAS),
        (f"{KAFKA}.TimeoutException: Topic events not present in metadata after 60000 ms.", Remedy.CLUSTER),
        ("java.net.ConnectException: Connection refused", Remedy.CLUSTER),
        ("java.net.SocketTimeoutException: connect timed out", Remedy.CLUSTER),
        (
            "org.apache.spark.SparkException: Python worker failed to connect back.\nCaused by: "
            "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back",
            Remedy.WORKER,
        ),
        (f"{KAFKA}.UnknownTopicOrPartitionException: This server does not host", Remedy.TOPIC),
        ("java.lang.IllegalStateException: something else", Remedy.RETRY),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error", Remedy.RETRY),
    ],
)
def test_every_failure_has_a_remedy(text: str, helps: Remedy) -> None:
    """The innermost cause decides, whatever Spark calls its consequence."""
    assert remedy(text) is helps


@pytest.mark.parametrize(
    ("first", "frame", "known"),
    [
        (
            'java.lang.NullPointerException: Cannot invoke "scala.collection.IterableOps.map(scala.Function1)" '
            'because the return value of "scala.Option.get()" is null',
            "KafkaMicroBatchStream$.metrics(KafkaMicroBatchStream.scala:520)",
            True,
        ),
        # Without the helpful messages of the JVM, which an option switches off.
        ("java.lang.NullPointerException", "KafkaMicroBatchStream$.metrics(Kafka.scala:1)", True),
        ("java.lang.NullPointerException", "KafkaMicroBatchStream.latestOffset(Kafka.scala:1)", False),
        ("java.lang.IllegalStateException: x", "KafkaMicroBatchStream$.metrics(Kafka.scala:1)", False),
    ],
)
def test_a_batch_that_is_finished_and_not_reported(first: str, frame: str, known: bool) -> None:
    """Only an error of the report itself, in the first frame of its stack."""
    assert (
        is_only_unreported(f"Caused by: {first}\n\tat org.apache.spark.sql.kafka010.{frame}\n\tat x") is known
    )


def test_the_causes_belong_to_the_text() -> None:
    """PySpark reports a full disk as a state that cannot be written; the cause says why."""
    inner = QueryError("java.io.IOException: No space left on device")
    text = failure_text(QueryError("[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing", inner))
    assert (remedy(text), headline(text)) == (Remedy.DISK, "java.io.IOException: No space left on device")


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (
            "groupreplay.state.stored_form.SnapshotError: snapshot for readers from 2 on",
            "snapshot for readers from 2 on",
        ),
        ("ValueError: no number", "ValueError: no number"),
    ],
)
def test_an_error_of_python(raised: str, shown: str) -> None:
    """The last thing that was raised, with its reason, in place of the first line of its stack."""
    stack = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\n    ^^^\n'
    python = f"{stack}KeyError: 1\n\nDuring handling of this another exception occurred:\n\n{stack}{raised}\n"
    text = (
        f"Caused by: org.apache.spark.api.python.PythonException: {python} SQLSTATE: 38000\n\tat org.apache"
    )
    assert headline(f"Job aborted due to stage failure\n{text}") == shown


def test_a_stack_without_an_end() -> None:
    """A text that was cut off shows what there is."""
    assert headline("Caused by: Traceback (most recent call last):") == "Traceback (most recent call last):"


def test_a_circle_of_causes_ends() -> None:
    """The description of an error must not fail."""
    error: Any = QueryError("a")
    error._cause = error
    assert headline(failure_text(error)) == "a"


def test_a_state_in_use_is_not_damaged() -> None:
    """A task that was cancelled holds the state a moment longer; Spark gives both faults one name."""
    text = "[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] RocksDB instance could not be acquired"
    assert (remedy(text), known_fault(text)) == (Remedy.RETRY, None)


@pytest.mark.parametrize(
    ("text", "what", "where", "exit_code"),
    [
        (f"{KAFKA}.TopicAuthorizationException: no", "not authorised", None, ExitCode.AUTHORISATION),
        (f"{KAFKA}.SaslAuthenticationException: no", "the broker refused", None, ExitCode.CONNECTION),
        (f"{KAFKA}.InvalidTimestampException: no", "the clock of this machine", None, ExitCode.CONNECTION),
        ("Some data may have been lost because", "a part of the log was deleted", None, ExitCode.DATA),
        (
            f"java.lang.NoSuchMethodError: '{CONSUMER}Records {CONSUMER}.poll(long)'",
            "clients without the call",
            None,
            ExitCode.USAGE,
        ),
        ("storage.SnapshotError: version 9", "another release", "/checkpoint", ExitCode.DATA),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error", "is damaged", "/checkpoint", ExitCode.DATA),
        (
            "Job aborted due to stage failure: Task 3 in stage 187.0 failed 4 times\n"
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error\nCaused by: java.io.EOFException",
            "is damaged: java.io.EOFException",
            "/checkpoint/state/0/3",
            ExitCode.DATA,
        ),
        (
            "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: "
            "file:/checkpoint/state/0/3/87.changelog at 0 exp: 1 got: 2",
            "is damaged",
            "/checkpoint/state/0/3/87.changelog",
            ExitCode.DATA,
        ),
        (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: /checkpoint/offsets/12 at 0",
            "is damaged",
            "/checkpoint/offsets/12",
            ExitCode.DATA,
        ),
        (
            "Error from python worker:\n  ModuleNotFoundError: No module named 'groupreplay'",
            "the Python of Spark's workers has no groupreplay",
            None,
            ExitCode.USAGE,
        ),
        ("whatever", "failed 3 times in a row", None, ExitCode.UNEXPECTED),
    ],
)
def test_what_cannot_get_better_is_explained(
    text: str, what: str, where: str | None, exit_code: ExitCode
) -> None:
    """The last failure becomes an error with a remedy and an exit code for scripts."""
    error = explained(text, "/checkpoint")
    assert what in error.what
    assert error.where == where
    assert error.fix
    assert error.exit_code == exit_code


def test_secrets_of_a_failure_are_not_shown() -> None:
    """The JVM may quote a client's settings."""
    text = failure_text(QueryError('bad: sasl.jaas.config = x required password="hunter2";'))
    assert "hunter2" not in text


@pytest.mark.spark
def test_spark_refuses_a_batch_that_another_query_has_begun(tmp_path: Path) -> None:
    """On any file system, and in the words that the supervisor knows."""
    rows = small_session().readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        wait_until(lambda: last_batch(tmp_path) >= 0)
        other = tmp_path / "offsets" / str(last_batch(tmp_path) + 5)
        other.write_bytes((tmp_path / "offsets" / "0").read_bytes())
        wait_until(lambda: not query.isActive)
        text = failure_text(query.exception())
        assert "CONCURRENT_STREAM_LOG_UPDATE" in text
        fault = known_fault(text, "/checkpoint")
        assert fault is not None
        assert fault.what.startswith("another query writes to the same checkpoint")
        read_remedy("streaming.spark.faults: stop the other", str(fault))
        query = writer.option("checkpointLocation", str(tmp_path / "own")).start()
        wait_until(lambda: last_batch(tmp_path / "own") >= 0)
    finally:
        query.stop()


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.line
def test_a_batch_that_is_repeated_is_finished(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """On the line with the defect the query fails behind it, and is known by its text; one query more then goes on."""
    topic, checkpoint = unique("t"), tmp_path / "checkpoint"
    make_topics(broker.bootstrap_servers, {topic: 1})
    plan = TopicPlan(cluster=Cluster(bootstrap_servers=broker.bootstrap_servers), topic=topic, partitions=1)
    rows = small_session().readStream.format("kafka").options(**read_options(plan)).load()

    def started(condition: str) -> Any:
        writer = rows.selectExpr(condition).writeStream.format("noop")
        return writer.option("checkpointLocation", str(checkpoint)).start()

    produce(broker.bootstrap_servers, topic, [(None, b"first")])
    # Every batch fails before it is finished.
    failed = started("raise_error('broken')")
    wait_until(lambda: not failed.isActive)
    assert (checkpoint / "offsets" / "0").exists()
    assert last_batch(checkpoint) == -1
    assert not is_only_unreported(failure_text(failed.exception()))

    repeating = started("value")
    wait_until(lambda: last_batch(checkpoint) == 0)
    if line_name(pyspark.__version__) == UNREPORTED:
        wait_until(lambda: not repeating.isActive)
        assert is_only_unreported(failure_text(repeating.exception())), failure_text(repeating.exception())
        repeating = started("value")
    produce(broker.bootstrap_servers, topic, [(None, b"second")])
    wait_until(lambda: last_batch(checkpoint) == 1)
    wait_until(lambda: repeating.lastProgress is not None and repeating.lastProgress["batchId"] == 1)
    repeating.stop()
