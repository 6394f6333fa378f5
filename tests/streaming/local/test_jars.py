"""Jar sets: what is kept, fetched, checked and healed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest

from groupreplay.streaming.local import jars
from groupreplay.streaming.local.ivy import Coordinate, JarError
from groupreplay.streaming.local.platforms import NEWEST, find_line
from support.remedies import read_remedy
from support.tools.maven_repository import MavenRepository, jar, serve

APPLE = "org.example.fruit:apple:1.0"
PEAR = "org.example.fruit:pear:2.0"


pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def store(cache: Path) -> Path:
    """The folder of the jars in the cache."""
    return cache / "jars"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MavenRepository]:
    """Serves the set "fruit", which is also the only set that is known."""
    with serve(tmp_path) as served:
        fruit = {APPLE: served.add(APPLE, jar("apple")), PEAR: served.add(PEAR, jar("pear"))}
        monkeypatch.setattr(jars, "locked_jars", {"fruit": fruit}.__getitem__)
        yield served


def place(store: Path, coordinate: str) -> Path:
    """Where a jar of the cache lies."""
    return store / Coordinate.parse(coordinate).place


def fetch(repository: MavenRepository) -> list[Path]:
    """The set's paths."""
    return jars.jar_paths("fruit", ivy_settings=repository.settings)


@pytest.mark.spark
def test_fetched_once_then_offline(
    repository: MavenRepository, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call fetches every file of the set, later ones need neither network nor Java."""
    paths = fetch(repository)
    assert {path: path.read_bytes() for path in paths} == {
        place(store, APPLE): jar("apple"),
        place(store, PEAR): jar("pear"),
    }
    monkeypatch.setattr(jars, "retrieve", None)
    assert fetch(repository) == paths
    assert sorted(repository.jars_served) == ["apple-1.0.jar", "pear-2.0.jar"]


@pytest.mark.spark
@pytest.mark.parametrize("damage", [None, b"", jar("apple")[:40]], ids=["missing", "empty", "cut"])
def test_damaged_cache_is_healed(repository: MavenRepository, store: Path, damage: bytes | None) -> None:
    """A file that is missing, empty or cut is fetched again, and the good ones are left alone."""
    paths = fetch(repository)
    repository.jars_served.clear()
    apple = place(store, APPLE)
    apple.unlink()
    if damage is not None:
        apple.write_bytes(damage)
    assert fetch(repository) == paths
    assert apple.read_bytes() == jar("apple")
    assert repository.jars_served == ["apple-1.0.jar"]


@pytest.mark.spark
def test_other_checksum_is_refused(repository: MavenRepository, store: Path) -> None:
    """A jar that is not the known one never reaches the cache; the others do; nothing else stays."""
    evil = repository.add(PEAR, jar("evil"))
    known = jars.locked_jars("fruit")[PEAR]
    with pytest.raises(JarError) as error:
        fetch(repository)
    assert f"{PEAR}: sha256 {evil}, expected {known}" in error.value.what
    assert sorted(path.name for path in store.rglob("*") if path.is_file()) == [".lock", "apple-1.0.jar"]
    read_remedy("streaming.local.jars: ask the operator of the mirror or proxy", str(error.value))
    repository.add(PEAR, jar("pear"))
    fetch(repository)


@pytest.mark.spark
def test_two_at_once_fetch_once(repository: MavenRepository) -> None:
    """Of two callers at the same time one fetches and the other waits for it; both get the same files."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(fetch, [repository] * 2)
    assert first == second
    assert sorted(repository.jars_served) == ["apple-1.0.jar", "pear-2.0.jar"]


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Away from a terminal there is one line per file, and stdout stays for data."""
    with jars.console_progress("fruit") as report:
        report("", 0, 2)
        report("apple-1.0.jar", 1, 2)
    assert capsys.readouterr() == (
        "",
        "downloading jars of fruit: 0/2\ndownloading jars of fruit: 1/2 apple-1.0.jar\n",
    )


def test_every_set_is_locked() -> None:
    """The kept list has exactly the sets of the table, and a sha256 for every jar, its roots among them."""
    for name, jar_set in jars.SETS.items():
        locked = jars.locked_jars(name)
        assert {*jar_set.closure, *jar_set.alone} <= set(locked)
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in locked.values())
        assert [str(Coordinate.parse(text)) for text in locked] == list(locked)


def test_connector_follows_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The set is that of pyspark's line, or for some later ones of the newest; for others the way out is named."""
    line = find_line(metadata.version("pyspark"))
    assert line is not None
    assert jars.locked_jars("spark-connector") == jars.locked_jars(f"spark-connector-{line.connector}")
    (later,) = NEWEST.later
    monkeypatch.setattr(metadata, "version", lambda _: later)
    assert jars.locked_jars("spark-connector") == jars.locked_jars(NEWEST.jar_set)
    monkeypatch.setattr(metadata, "version", lambda _: "4.9.9")
    with pytest.raises(JarError) as error:
        jars.locked_jars("spark-connector")
    assert error.value.fix == (
        "pip install 'pyspark==4.2.*', or submit the job with "
        "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.9.9"
    )


def test_unknown_set_names_the_known_ones() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(JarError) as error:
        jars.locked_jars("broker-0.8")
    assert error.value.where == f"known sets: {', '.join(sorted(jars.SETS))}"


@pytest.mark.spark
def test_lock_lists_what_a_set_needs(
    repository: MavenRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lock` resolves the table: closures with needs, `alone` without, filtered by `only`."""
    seed, core = "org.example:seed:0.1", "org.example:core:7"
    digests = {
        seed: repository.add(seed, jar("seed")),
        core: repository.add(core, jar("core"), needs=(seed,)),
        APPLE: jars.locked_jars("fruit")[APPLE],
    }
    table = {
        "whole": jars.JarSet(closure=(core,), alone=(APPLE,)),
        "part": jars.JarSet(closure=(core,), only=("seed",)),
    }
    monkeypatch.setattr(jars, "SETS", table)
    jars.lock(tmp_path / "lock.json", repository.settings)
    assert json.loads((tmp_path / "lock.json").read_text()) == {
        "whole": digests,
        "part": {seed: digests[seed]},
    }
