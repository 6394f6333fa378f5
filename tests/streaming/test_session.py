"""The session that the job runs in."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from spark_sessions import small_session

from groupreplay.streaming.session import SESSION_CONF, jvm_has_ended


@pytest.mark.spark
def test_our_settings_are_in_force() -> None:
    """Without them the job would read nothing, grow without limit, or listen where it should not."""
    spark = small_session()
    assert {name: spark.conf.get(name) for name in SESSION_CONF} == dict(SESSION_CONF)
    conf = dict(spark.sparkContext.getConf().getAll())
    assert (conf["spark.ui.enabled"], conf["spark.driver.bindAddress"]) == ("false", "127.0.0.1")
    assert re.search(conf["spark.redaction.regex"], "kafka.sasl.jaas.config")
    assert re.search(conf["spark.redaction.regex"], "kafka.ssl.keystore.key")


def test_a_missing_pyspark_is_told() -> None:
    """The extra is optional: without it the message says how to get it."""
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "from groupreplay.streaming.session import spark_session\n"
        "from groupreplay.streaming.settings import Cluster, RunSettings\n"
        "spark_session(RunSettings(source=Cluster(bootstrap_servers='b:1'), checkpoint='c'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'groupreplay[spark]'" in done.stderr


def test_a_jvm_that_has_ended() -> None:
    """Known for the JVM that we started; of one that was there before us nothing is said."""

    def seen(process: object) -> bool:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
        return jvm_has_ended(spark)

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert not seen(process)
        process.kill()
        process.wait()
        assert seen(process)
    assert not seen(None)
