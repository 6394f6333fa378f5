"""The session that the job runs in."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.spark.internals import checkpoint_manager
from groupreplay.streaming.spark.session import LOCAL_FILES, SESSION_CONF, jvm_has_ended, use_local_files
from support.job.spark_sessions import private_parts, small_session


@pytest.mark.spark
def test_our_settings_are_in_force() -> None:
    """Without them the job would read nothing, grow without limit, or listen where it should not."""
    spark = small_session()
    assert {name: spark.conf.get(name) for name in SESSION_CONF} == dict(SESSION_CONF)
    conf = dict(spark.sparkContext.getConf().getAll())
    assert (conf["spark.ui.enabled"], conf["spark.driver.bindAddress"]) == ("false", "127.0.0.1")
    assert re.search(conf["spark.redaction.regex"], "kafka.sasl.jaas.config")
    assert re.search(conf["spark.redaction.regex"], "kafka.ssl.keystore.key")


def asked_without_authentication(port: int) -> bytes:
    """The answer of a server of Spark's network library to a request by a client that has not authenticated itself."""
    body = b"\x00a message"
    # The type of a request to a remote procedure, its number, and the length of the body.
    head = struct.pack(">bqi", 3, 7, len(body))
    frame = struct.pack(">q", 8 + len(head) + len(body)) + head + body
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.settimeout(60)
        connection.sendall(frame)
        return connection.recv(65_536)


@private_parts
@pytest.mark.spark
def test_the_ports_of_spark_need_authentication() -> None:
    """The ports of RPC and of blocks refuse a request without it; the secret is in no setting and no command line."""
    spark = small_session()
    jvm: Any = spark.sparkContext._jvm
    env = jvm.org.apache.spark.SparkEnv.get()
    for port in (env.rpcEnv().address().port(), env.blockManager().blockManagerId().port()):
        assert b"Expected SaslMessage, received something else" in asked_without_authentication(port)
    secret = env.securityManager().getSecretKey()
    assert len(secret) >= 32
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.authenticate"] == "true"
    assert [name for name, value in settings.items() if secret in value] == []
    words = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert "spark.authenticate=true" in words
    assert secret not in words
    # Shuffles and Python workers go on as before.
    assert spark.range(100).repartition(3).count() == 100


@private_parts
@pytest.mark.spark
@pytest.mark.parametrize("other", [None, "FileContextBasedCheckpointFileManager"])
def test_files_of_this_machine(other: str | None, tmp_path: Path) -> None:
    """Spark takes our manager for a local checkpoint, unless the user has another wish; what it writes can be read."""
    spark = small_session()
    name, ours = LOCAL_FILES, checkpoint_manager(spark.version)
    wish = f"{ours.rpartition('.')[0]}.{other}" if other else None
    settings = RunSettings(
        source=Cluster(bootstrap_servers="b:1"), checkpoint="c", spark_conf={name: wish} if wish else {}
    )
    jvm: Any = spark.sparkContext._jvm
    package = ours.rpartition(".")[0]
    try:
        if wish:
            spark.conf.set(name, wish)
        use_local_files(spark, settings)
        path = jvm.org.apache.hadoop.fs.Path(str(tmp_path))
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
        managers = getattr(jvm, f"{package}.CheckpointFileManager$")
        manager = getattr(managers, "MODULE$").create(path, conf)
    finally:
        spark.conf.unset(name)
    assert manager.getClass().getName() == (wish or ours)
    for text in (b"one", b"two"):
        stream = manager.createAtomic(jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/0"), True)
        stream.write(bytearray(text))
        stream.close()
    assert ((tmp_path / "0").read_bytes(), manager.isLocal()) == (b"two", True)
    assert sorted(one.name for one in tmp_path.iterdir()) == [".0.crc", "0"]


def test_a_missing_pyspark_is_reported() -> None:
    """The extra is optional: without it the message names the command that installs it."""
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "from groupreplay.streaming.spark.session import spark_session\n"
        "from groupreplay.streaming.config.settings import Cluster, RunSettings\n"
        "spark_session(RunSettings(source=Cluster(bootstrap_servers='b:1'), checkpoint='c'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'groupreplay[spark]'" in done.stderr


def test_a_jvm_that_has_ended() -> None:
    """Known for a JVM that this process started; False for one that existed before."""

    def seen(process: object) -> bool:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
        return jvm_has_ended(spark)

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert not seen(process)
        process.kill()
        process.wait()
        assert seen(process)
    assert not seen(None)


@pytest.mark.spark
def test_an_idle_jvm_gives_memory_back() -> None:
    """The options are known to this JVM or left out by it, and Spark has garbage looked for every two minutes."""
    context: Any = small_session().sparkContext
    arguments = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert "-XX:MaxHeapFreeRatio=30" in [*arguments]
    assert context.getConf().get("spark.cleaner.periodicGC.interval") == "2min"
