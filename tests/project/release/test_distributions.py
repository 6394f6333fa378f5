"""Two builds of one commit are equal, whatever the machine's settings are; the wheel is whole."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from distributions import CHART, build, pack_chart, reproducible, write_checksums
from support.paths import ROOT
from support.tools.helm_chart import CLUSTER, rendered_text
from support.tools.project_copy import COMMITTED, commit_all, copy_project


def test_two_builds_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder, time, time zone and umask change no byte; what git does not have is not built."""
    projects = [copy_project(tmp_path / name) for name in ("first", "second-with-a-longer-name")]
    contents = []
    for number, project in enumerate(projects):
        commit_all(project)
        (project / "src" / "groupreplay" / "state" / "not_committed.py").touch()
        monkeypatch.setenv("TZ", ("UTC", "Asia/Kolkata")[number])
        before = os.umask((0o022, 0o077)[number])
        try:
            built = build(project, tmp_path / f"built-{number}")
        finally:
            os.umask(before)
        contents.append({path.name: path.read_bytes() for path in built})
    assert list(contents[0]) == list(contents[1])
    assert [name for name in contents[0] if contents[0][name] != contents[1][name]] == []
    sdist, wheel = (contents[0][name] for name in sorted(contents[0], key=lambda one: one.endswith(".whl")))
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        names = archive.namelist()
        assert {one.date_time for one in archive.infolist()} == {(2026, 1, 31, 2, 0, 0)}
    assert "groupreplay/state/group.py" in names
    assert [name for name in names if "not_committed" in name] == []
    with tarfile.open(fileobj=io.BytesIO(sdist)) as packed:
        members = packed.getmembers()
    assert {one.mtime for one in members} == {COMMITTED}
    assert {one.mode for one in members} <= {0o755, 0o644}
    assert {(one.uid, one.gid, one.uname, one.gname) for one in members} == {(0, 0, "", "")}


def test_the_chart_is_packed_without_helm(tmp_path: Path) -> None:
    """The archive has the chart's files of the commit below its name; two of one commit are equal."""
    archives = []
    for name in ("first", "second"):
        project = copy_project(tmp_path / name)
        shutil.copytree(ROOT / CHART, project / CHART)
        commit_all(project)
        (project / CHART / "templates" / "not-committed.yaml").touch()
        archives.append(pack_chart(project, tmp_path / name, "0.1.0"))
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as packed:
        found = {one.name: packed.extractfile(one) for one in packed.getmembers() if one.isfile()}
        contents = {name: file.read() for name, file in found.items() if file is not None}
    files = [path for path in (ROOT / CHART).rglob("*") if path.is_file()]
    assert contents == {f"groupreplay/{path.relative_to(ROOT / CHART)}": path.read_bytes() for path in files}
    assert archives[0].name == "groupreplay-0.1.0.tgz"


def test_helm_takes_the_archive(tmp_path: Path) -> None:
    """Helm makes the same objects of the archive as of the folder."""
    project = copy_project(tmp_path / "project")
    shutil.copytree(ROOT / CHART, project / CHART)
    commit_all(project)
    archive = pack_chart(project, tmp_path, "0.1.0")
    assert rendered_text(CLUSTER, chart=archive) == rendered_text(CLUSTER)


def test_an_archive_of_other_order_owner_and_time() -> None:
    """It becomes the same bytes; another content does not."""

    def packed(names: str, content: bytes = b"x", **fields: int) -> bytes:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as file:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                for field, value in fields.items():
                    setattr(member, field, value)
                file.addfile(member, io.BytesIO(content))
        return reproducible(archive.getvalue(), 1_000)

    assert packed("ab", uid=7, mtime=1) == packed("ba", gid=8, mtime=2.5, mode=0o664)
    assert packed("ab") != packed("ab", content=b"y")
    assert packed("ab") != packed("ab", mode=0o755)


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    """``sha256sum --check`` accepts the files, and refuses one that was changed."""
    files = [tmp_path / name for name in ("b", "a")]
    for path in files:
        path.write_text(path.name)
    assert write_checksums(tmp_path, files).name == "SHA256SUMS"
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=True).stdout == b"a: OK\nb: OK\n"
    files[0].write_text("other")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1
