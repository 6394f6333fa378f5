"""Values of a scenario file that contradict each other are refused with a sentence."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from groupreplay.coordinator.simulation.scenario_file import ScenarioFile, milliseconds

STOP = {"do": "stop", "member": 0}


def converted(**tables: Any) -> ScenarioFile:
    """The file."""
    return msgspec.convert({"title": "t", **tables}, ScenarioFile)


def test_units() -> None:
    """From milliseconds to days."""
    assert [milliseconds(f"3{unit}") for unit in ("ms", "s", "m", "h", "d")] == [
        *(3, 3_000, 180_000, 10_800_000, 259_200_000)
    ]


def test_only_the_title_is_needed() -> None:
    """Three members of a topic with six partitions, and nothing happens."""
    file = converted()
    assert (file.group.members, file.group.partitions, file.event, file.mixture) == (3, 6, (), ())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"group": {"members": {}}}, "either from and to, or one-of"),
    ({"group": {"members": {"from": 1}}}, "either from and to, or one-of"),
    ({"group": {"members": {"from": 1, "to": 2, "one-of": [1]}}}, "either from and to, or one-of"),
    ({"group": {"members": {"from": 2, "to": 1}}}, "from = 2 is more than to = 1"),
    (
        {"group": {"members": {"one-of": [1, 2], "weights": [1]}}},
        "weights must be 2 numbers, one for each value",
    ),
    ({"group": {"members": {"one-of": [1, 2], "weights": [0, 0]}}}, "not all 0"),
    ({"group": {"members": 0}}, "members must be from 1 to 1000"),
    ({"group": {"members": {"one-of": [1, 1001]}}}, "members must be from 1 to 1000"),
    ({"group": {"partitions": 10_001}}, "partitions must be from 1 to 10000"),
    ({"group": {"returns-at-start": 2}}, "returns-at-start needs migrates-at-start"),
    ({"group": {"returns-at-start": 2, "migrates-at-start": 2}}, "must be more than migrates-at-start = 2"),
    (
        {"group": {"returns-at-start": {"one-of": [0, 1]}, "migrates-at-start": 2}},
        "must be more than migrates-at-start = 2",
    ),
    ({"group": {"members": {"one-of": [1], "weights": [math.inf]}}}, "finite and not all 0"),
    ({"group": {"members": {"one-of": [1], "weights": [math.nan]}}}, "Expected `float` >= 0.0"),
    ({"group": {"repeats": math.nan}}, "Expected `float`"),
    ({"mixture": [{"scenario": "s", "weight": math.inf}]}, "the weights of [[mixture]] must be finite"),
    ({"group": {"repeats": {"one-of": [0.5], "weights": [1, 2]}}}, "weights must be 1 numbers"),
    ({"event": [{}]}, "either steps or cycle"),
    ({"event": [{"steps": [STOP], "cycle": [[STOP]]}]}, "either steps or cycle"),
    ({"event": [{"steps": [STOP], "every": "999ms"}]}, "every must be 1s or more"),
    ({"event": [{"steps": [STOP], "every": {"about": "1s"}}]}, "every must be 1s or more"),
    ({"event": [{"steps": [STOP], "every": {"from": "0s", "to": "9s"}}]}, "every must be 1s or more"),
    ({"event": [{"steps": [STOP], "every": {"share": 0.5}}]}, "every must be 1s or more"),
    ({"event": [{"steps": [STOP], "after": {"from": "9s", "to": "1s"}}]}, "from = 9s is more than to = 1s"),
    ({"event": [{"steps": [STOP], "after": {"from": "9s"}}]}, "from and to belong together"),
    ({"event": [{"steps": [STOP], "after": {"about": "9s", "share": 0.5}}]}, "either from and to, or about"),
    ({"event": [{"steps": [STOP], "after": {}}]}, "either from and to, or about, or share"),
    ({"event": [{"steps": [STOP], "after": {"share": 0.5, "or-per-member": "1s"}}]}, "needs about"),
    ({"event": [{"steps": [STOP], "after": {"about": "9s", "at-least": "1s"}}]}, "at-least needs share"),
    ({"event": [{"steps": [{"do": "scale", "least": 3, "most": 2}]}]}, "least = 3 is more than most = 2"),
    ({"event": [{"steps": [STOP]}], "mixture": [{"scenario": "s"}]}, "either [[event]] or [[mixture]]"),
    ({"broker-restarts": {"down": "2m"}}, "pace must be at least twice down"),
    ({"broker-restarts": {"every": "8m"}}, "every must be at least three times pace"),
    ({"broker-restarts": {"pace": "0s", "down": "0s"}}, "pace more than 0s"),
    (
        {"broker-restarts": {"election": "20s", "loading": "21s"}},
        "election and loading together must be at most down",
    ),
    ({"failed-appends": {"last": "2h"}}, "last must be more than 0s and less than every"),
    ({"failed-appends": {"last": "0s"}}, "last must be more than 0s and less than every"),
    ({"group": {"mirrored-every": "999ms"}}, "mirrored-every must be 1s or more"),
]


@pytest.mark.parametrize(("tables", "sentence"), WRONG)
def test_contradictions(tables: dict[str, Any], sentence: str) -> None:
    """Each is found when the file is read, not when it is drawn."""
    with pytest.raises(msgspec.ValidationError) as caught:
        converted(**tables)
    assert sentence in str(caught.value)
