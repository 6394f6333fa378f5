"""Scenario files: the built-in ones, files of the user, mixtures, and an error for each mistake."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from groupreplay.app.simulate.scenario_files import (
    built_in_names,
    built_in_text,
    check_broker,
    checked_properties,
    load_scenario,
)
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

TITLE = 'title = "t"\n'


def written(folder: Path, text: str, name: str = "mine.toml") -> str:
    """The path of a file with this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def refused(name: str) -> GroupReplayError:
    """The error for a scenario; it is one of usage."""
    with pytest.raises(GroupReplayError) as caught:
        load_scenario(name)
    assert caught.value.exit_code is ExitCode.USAGE
    return caught.value


def test_every_built_in_scenario_has_a_title() -> None:
    """Each its own; its file is the one that is printed."""
    titles = {name: load_scenario(name).file.title for name in built_in_names()}
    assert len(set(titles.values())) == len(titles) == 43
    assert all(f'title = "{title}"' in built_in_text(name) for name, title in titles.items())


@pytest.mark.parametrize("name", built_in_names())
def test_a_copy_of_a_built_in_scenario_is_the_same(tmp_path: Path, name: str) -> None:
    """The printed file can be used as it is, also if it refers to others."""
    copied = load_scenario(written(tmp_path, built_in_text(name), f"{name}.toml"))
    assert copied == load_scenario(name)


def test_a_file_of_the_user(tmp_path: Path) -> None:
    """Its name without the ending is that of the scenario, and of its groups."""
    text = TITLE + '[broker]\n"group.max.size" = 2\n[client]\n"session.timeout.ms" = 10_000\n'
    scenario = load_scenario(written(tmp_path, text))
    assert (scenario.name, scenario.broker) == ("mine", {"group.max.size": 2})
    assert scenario.draw(random.Random(0), 60_000).session_timeout_ms == 10_000


def test_what_wins_in_a_mixture(tmp_path: Path) -> None:
    """The part's own file, then [client] of the mixture, then client of the part, then what surrounds the mixture."""
    four = [f'"{name}" = {{}}' for name in ("session.timeout.ms", "heartbeat.interval.ms")]
    four += [f'"{name}" = {{}}' for name in ("max.poll.interval.ms", "auto.commit.interval.ms")]
    lines = [line.format for line in four]

    def settings(count: int, value: int) -> str:
        return "\n".join(line(value) for line in lines[:count])

    written(
        tmp_path,
        f"{TITLE}[client]\n{settings(4, 9_004)}\n[group]\npartitions = 4\nmembers = 2\n",
        "inner.toml",
    )
    part = settings(2, 9_002).replace("\n", ", ")
    text = f"{TITLE}[client]\n{settings(3, 9_003)}\n[group]\npartitions = 7\n"
    text += f'[[mixture]]\nscenario = "inner.toml"\nclient = {{ {part} }}\n'
    middle = written(tmp_path, text, "middle.toml")
    text = f'{TITLE}[[mixture]]\nscenario = "middle.toml"\nclient = {{ {settings(1, 9_999)} }}\n'
    outer = written(tmp_path, text, "outer.toml")

    def drawn(name: str) -> tuple[int, ...]:
        one = load_scenario(name).draw(random.Random(0), 60_000)
        return (
            *(one.session_timeout_ms, one.heartbeat_interval_ms),
            *(one.rebalance_timeout_ms, one.commit_interval_ms, one.partitions, len(one.steps)),
        )

    written(tmp_path, text.replace("9999", "9002"), "same.toml")
    assert drawn(outer) == (9_999, 9_002, 9_003, 9_004, 7, 2)
    assert refused(middle).what == (
        "a client does not start with these settings, "
        "heartbeat.interval.ms = 9002 must be less than session.timeout.ms = 9002"
    )


def test_the_weights_of_a_mixture(tmp_path: Path) -> None:
    """How often each part is drawn."""
    parts = "".join(
        f'[[mixture]]\nscenario = "steady"\nweight = {weight}\ngroup = {{ members = {members} }}\n'
        for members, weight in ((1, 3), (2, 1))
    )
    scenario = load_scenario(written(tmp_path, TITLE + parts))
    sizes = [len(scenario.draw(random.Random(seed), 60_000).steps) for seed in range(200)]
    assert set(sizes) == {1, 2}
    assert 120 < sizes.count(1) < 180


def event(steps: str, more: str = "") -> str:
    """A file with one event."""
    return f"{TITLE}[[event]]\n{more}\nsteps = [{steps}]\n"


#: Text of the file -> what, where behind the path, fix.
MISTAKES: list[tuple[str, str, str, str]] = [
    ("title = ", "the scenario is not TOML", "", "describes the format"),
    ("", "title is missing", "", "describes the format"),
    ("title = 3", "title = 3: expected text, got a whole number", "", "describes the format"),
    (TITLE + "[grup]\n", "unknown key 'grup'", "", "did you mean group? known here: title, broker"),
    (TITLE + "[group]\nmember = 3", "unknown key 'member'", ", [group]", "did you mean members? known here:"),
    (
        TITLE + '[group]\nmembers = "3"',
        "members = 3: expected a whole number or a table, got text",
        ", [group]",
        "describes the format",
    ),
    (
        TITLE + "[group]\nmembers = 0",
        "group = {'members': 0}: members must be from 1 to 1000",
        "",
        "describes",
    ),
    (
        TITLE + "[group]\nmembers = { form = 1, to = 2 }",
        "unknown key 'form'",
        ", [group], members",
        "did you mean from? known here: from, to, one-of, weights",
    ),
    (
        TITLE + '[group]\ncommitter = "producer"',
        "committer = producer: did you mean producers? allowed: consumers, producers, both",
        ", [group]",
        "describes the format",
    ),
    (
        TITLE + "[group]\nrepeats = 2.0",
        "repeats = 2.0: expected a number <= 1.0",
        ", [group]",
        "describes the format",
    ),
    (
        event('{ do = "hagn", member = 1 }'),
        "do = hagn: did you mean hang? allowed: start, stop, crash, hang, resume, slow-poll, restart, rolling, "
        "deploy, scale",
        ", [[event]] 1, steps 1",
        "describes the format",
    ),
    (event("{ member = 1 }"), "do is missing", ", [[event]] 1, steps 1", "describes the format"),
    (event('{ do = "hang" }'), "member is missing", ", [[event]] 1, steps 1", "describes the format"),
    (
        event('{ do = "stop", member = 1 }, { do = "hang", membr = 1 }'),
        "unknown key 'membr'",
        ", [[event]] 1, steps 2",
        "did you mean member? known here: do, at, member",
    ),
    (
        event('{ do = "hang", member = "some" }'),
        "member = some: allowed: random, next, all",
        ", [[event]] 1, steps 1",
        "describes the format",
    ),
    (
        event('{ do = "stop", member = 1 }', 'after = "1 minute"'),
        "after = 1 minute: not a time; write 500ms, 90s, 20m, 1h or 2d",
        ", [[event]] 1",
        "describes the format",
    ),
    (
        TITLE + '[[event]]\ncycle = [[{ do = "stop", member = 1 }], [{ do = "stop", member = true }]]',
        "member = True: expected",
        ", [[event]] 1, cycle 2 1",
        "describes the format",
    ),
    (
        TITLE + '[broker]\n"group.max.sise" = 2',
        "unknown setting 'group.max.sise'",
        ", [broker]",
        "did you mean group.max.size? known here: group.max.size, group.initial",
    ),
    (
        TITLE + '[broker]\n"group.max.size" = 0',
        "group.max.size = 0 is not allowed, but a whole number, 1 or more",
        ", [broker]",
        "describes the format",
    ),
    (
        TITLE + '[broker]\n"group.max.size" = { one-of = [1, 2] }',
        "group.max.size = {'one-of': [1, 2]} is not allowed, but a whole number, 1 or more",
        ", [broker]",
        "describes the format",
    ),
    (
        TITLE + '[broker]\n"session.timeout.ms" = 10_000',
        "session.timeout.ms is a setting of the client",
        ", [broker]",
        "write it below [client], or --client-property",
    ),
    (
        TITLE + '[client]\n"group.protocol" = { one-of = ["classic", "new"] }',
        "group.protocol = new is not allowed, but one of classic, consumer",
        ", [client]",
        "describes the format",
    ),
    (
        TITLE + '[client]\n"group.protocol" = { oneof = ["classic"] }',
        "group.protocol = {'oneof': ['classic']}: Object",
        "",
        "write { one-of = [...] }",
    ),
    (
        TITLE + '[client]\n"heartbeat.interval.ms" = 45_000',
        "a client does not start with these settings, heartbeat.interval.ms = 45000 must be less than "
        "session.timeout.ms = 45000",
        "",
        "change one of the two",
    ),
    (
        TITLE + '[broker]\n"group.consumer.session.timeout.ms" = 10_000',
        "a broker does not start with these settings, group.consumer.min.session.timeout.ms = 45000 must be at "
        "most group.consumer.session.timeout.ms = 10000",
        "",
        "change one of the two",
    ),
    (
        TITLE + '[[mixture]]\nscenario = "steady"\nclient = { "group.protocl" = "consumer" }',
        "unknown setting 'group.protocl'",
        ", [[mixture]] 1, client",
        "did you mean group.protocol?",
    ),
    (
        TITLE + '[[mixture]]\nscenario = "steady"\ngroup = { member = 1 }',
        "unknown key 'member'",
        ", [[mixture]] 1, group",
        "did you mean members?",
    ),
    (
        TITLE + '[[mixture]]\nscenario = "stedy"',
        "there is no scenario 'stedy'",
        "",
        "did you mean steady? groupreplay simulate --list prints all",
    ),
    (
        TITLE + '[[mixture]]\nscenario = "cluster-restart"',
        "the scenario cluster-restart has settings of the brokers, which are those of all groups",
        "",
        "mix scenarios without them",
    ),
    (
        TITLE + '[[mixture]]\nscenario = "mine.toml"',
        "the scenario is a part of itself",
        "",
        "remove it from [[mixture]]",
    ),
]


@pytest.mark.parametrize(("text", "what", "place", "fix"), MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, text: str, what: str, place: str, fix: str) -> None:
    """What is wrong, in which file and where in it, and what is allowed there."""
    path = written(tmp_path, text)
    error = refused(path)
    assert error.what.startswith(what)
    assert error.where == f"{path}{place}"
    assert fix in (error.fix or "")


def test_the_mistake_of_a_part_is_named_with_its_own_file(tmp_path: Path) -> None:
    """Not with that of the mixture."""
    part = written(tmp_path, TITLE + "[group]\nmembers = 0", "part.toml")
    error = refused(written(tmp_path, f'{TITLE}[[mixture]]\nscenario = "part.toml"\n'))
    assert error.where == part


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, not UTF-8, with a name that no group id may have, or with the wrong ending."""
    missing = str(tmp_path / "gone.toml")
    assert refused(missing).what == "cannot read the scenario, No such file or directory"
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    assert refused(str(tmp_path / "bytes.toml")).what == "the scenario is not UTF-8"
    assert (
        refused(written(tmp_path, TITLE, "a b.toml")).fix
        == "rename it with letters, digits, '.', '_' and '-'"
    )
    assert refused("storn").fix == (
        "did you mean storm? groupreplay simulate --list prints all; a file ends with .toml"
    )


def test_settings_of_flags() -> None:
    """Text becomes numbers and lists; a mistake names the flag."""
    given = {"group.max.size": "2", "group.consumer.assignors": "range"}
    found = checked_properties(BROKER_SETTINGS, given, "--broker-property")
    assert found == {"group.max.size": 2, "group.consumer.assignors": ("range",)}
    for name, text, sentence in (
        (
            "sesion.timeout.ms",
            "1",
            "unknown setting 'sesion.timeout.ms' (--client-property): did you mean session.timeout.ms? known here: ",
        ),
        (
            "group.max.size",
            "1",
            "group.max.size is a setting of the broker (--client-property): write it below [broker], or "
            "--broker-property",
        ),
        (
            "session.timeout.ms",
            "10s",
            "session.timeout.ms = 10s is not allowed, but a whole number, 1 or more (--client-property): "
            "docs/simulations.md lists the settings",
        ),
    ):
        with pytest.raises(GroupReplayError) as caught:
            checked_properties(CLIENT_SETTINGS, {name: text}, "--client-property")
        assert str(caught.value).startswith(sentence)
        assert caught.value.exit_code is ExitCode.USAGE


def test_a_broker_that_would_not_start() -> None:
    """The flags and the file together are checked."""
    check_broker({"group.min.session.timeout.ms": 1, "group.max.session.timeout.ms": 1}, "flag")
    with pytest.raises(GroupReplayError, match=r"a broker does not start with these settings, .* \(flag\)"):
        check_broker({"group.min.session.timeout.ms": 2, "group.max.session.timeout.ms": 1}, "flag")


def test_a_broker_that_does_not_know_a_setting() -> None:
    """The versions of records follow from a setting that Kafka 4 does not have."""
    old = {"inter.broker.protocol.version": "1.1"}
    check_broker(old, "flag", scala=True)
    with pytest.raises(
        GroupReplayError, match=r"brokers since 4.0 do not know inter.broker.* \(flag\): add --scala"
    ):
        check_broker(old, "flag", scala=False)
