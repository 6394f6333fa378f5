"""The files of a report: ECharts is the file of its npm package, and a changed one is refused."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from groupreplay.app.report import assets
from groupreplay.streaming.base.errors import GroupReplayError


def test_echarts_is_what_its_package_holds() -> None:
    """Each shipped file has the checksum of the list; licence and notice stand beside the script."""
    lock = json.loads(assets.asset("echarts.json"))
    found = {name: hashlib.sha256(assets.asset(name).encode()).hexdigest() for name in lock["files"]}
    assert (found, lock["licence"]) == (lock["files"], "Apache-2.0")
    assert set(found) == {"echarts.min.js", "echarts.LICENSE", "echarts.NOTICE"}
    assert assets.echarts() == assets.asset("echarts.min.js")


def test_a_changed_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One character more, and no page is made with it."""
    real = assets.asset
    monkeypatch.setattr(assets, "asset", lambda name: real(name) + " " * (name == assets.ECHARTS))
    with pytest.raises(GroupReplayError, match="SHA-256"):
        assets.echarts()


def test_hashes_of_sources() -> None:
    """As a Content-Security-Policy has them."""
    digest = base64.b64encode(hashlib.sha256(b"a()").digest()).decode()
    assert assets.source_hash("a()") == f"'sha256-{digest}'"


def test_files_of_an_archive(tmp_path: Path) -> None:
    """The three files of a package, and the list with its release and their checksums."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for place in ("package/dist/echarts.min.js", "package/LICENSE", "package/NOTICE", "package/other.js"):
            member = tarfile.TarInfo(place)
            member.size = len(place)
            archive.addfile(member, io.BytesIO(place.encode()))
    assets.write_files(packed.getvalue(), "9.9.9", tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    lock = json.loads(written.pop("echarts.json"))
    assert written == {
        "echarts.min.js": "package/dist/echarts.min.js",
        "echarts.LICENSE": "package/LICENSE",
        "echarts.NOTICE": "package/NOTICE",
    }
    assert lock["version"] == "9.9.9"
    assert lock["files"] == {
        name: hashlib.sha256(text.encode()).hexdigest() for name, text in written.items()
    }
