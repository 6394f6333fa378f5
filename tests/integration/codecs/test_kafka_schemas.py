"""Our declarations against the JSON schemas inside Kafka's published jars, release by release."""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import Any, NamedTuple

import pytest

from groupreplay.codecs import REGISTRY, Assignment, Subscription
from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.primitives import WireType
from groupreplay.codecs.schema import EARLY, Struct, Value, Versioned, Wire, wires
from groupreplay.streaming.local.jars import jar_paths

# Reading the jars needs no JVM, but fetching them does.
pytestmark = pytest.mark.broker

#: Release -> the jar set that holds its schemas.
JAR_SETS = {
    "3.7.2": "schemas-3.7.2",
    "3.9.1": "broker-3.9.1",
    "4.0.0": "schemas-4.0.0",
    "4.1.1": "schemas-4.1.1",
    "4.2.0": "schemas-4.2.0",
    "4.3.1": "broker-4.3.1",
    "4.4.0": "broker-4.4.0",
}
RELEASES = tuple(JAR_SETS)

#: Every field that a release added to a message without a new version, and why its absence before is
#: harmless to a reader. Untagged additions are in EARLY_BODIES.
ADDED = (
    ("4.1.1", "OffsetCommitValue", "topicId", "tagged; commits by topic id"),
    ("4.1.1", "ConsumerGroupMetadataValue", "metadataHash", "tagged; KIP-1101"),
    ("4.2.0", "StreamsGroupMetadataValue", "validatedTopologyEpoch", "tagged"),
    ("4.2.0", "StreamsGroupMetadataValue", "lastAssignmentConfigs", "tagged"),
    ("4.2.0", "StreamsGroupCurrentMemberAssignmentValue", "assignmentEpochs", "tagged"),
    ("4.3.1", "ConsumerGroupTargetAssignmentMetadataValue", "assignmentTimestamp", "tagged; KIP-1263"),
    ("4.3.1", "ShareGroupTargetAssignmentMetadataValue", "assignmentTimestamp", "tagged; KIP-1263"),
    ("4.3.1", "StreamsGroupTargetAssignmentMetadataValue", "assignmentTimestamp", "tagged; KIP-1263"),
    ("4.3.1", "ConsumerGroupCurrentMemberAssignmentValue", "assignmentEpochs", "tagged; KIP-1251"),
    ("4.4.0", "StreamsGroupMetadataValue", "storedDescriptionTopologyEpoch", "tagged"),
    ("4.4.0", "StreamsGroupMetadataValue", "failedDescriptionTopologyEpoch", "tagged"),
)
#: The bodies that changed under version 0 in a way that a reader must tell apart: message -> releases with
#: the early one.
EARLY_BODIES = {
    "ConsumerGroupPartitionMetadataValue": ("3.7.2",),
    "ConsumerGroupMemberMetadataValue": ("3.7.2",),
    "ConsumerGroupTargetAssignmentMemberValue": ("3.7.2",),
    "ConsumerGroupCurrentMemberAssignmentValue": ("3.7.2",),
    "ShareGroupPartitionMetadataValue": ("3.9.1",),
    "ShareGroupMetadataValue": ("3.9.1", "4.0.0"),
    "ShareGroupStatePartitionMetadataValue": ("4.0.0",),
}
#: Record types by the release that brought them; type 9 was dropped again.
TYPES = {
    "3.7.2": {1, 2, 3, 4, 5, 6, 7, 8},
    "3.9.1": {9, 10, 11},
    "4.0.0": {12, 13, 14, 15, 16},
    "4.1.1": {0, 17, 19, 20, 21, 22, 23},
}
TYPES_DROPPED = {"4.1.1": {9}}


class Field(NamedTuple):
    """One field of one version, as Kafka's schemas and our declarations can both say it."""

    name: str
    type: Any
    nullable: bool
    tag: int | None
    default: Any


@cache
def schemas(release: str) -> dict[str, dict[str, Any]]:
    """Name -> schema, of the coordinator's records and the consumer protocol."""
    found = {}
    for jar in jar_paths(JAR_SETS[release]):
        if not re.match(r"kafka-(group-coordinator|clients)-\d", jar.name):
            continue
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                wanted = "group-coordinator" in jar.name or "ConsumerProtocol" in name
                if wanted and name.startswith("common/message/") and name.endswith(".json"):
                    text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                    schema = json.loads(text)
                    found[schema["name"]] = schema
    return found


def in_range(versions: str, version: int) -> bool:
    """Whether ``3+``, ``0-4``, ``1`` or ``none`` holds this version."""
    if versions == "none":
        return False
    first, _, last = versions.rstrip("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last or first))


def theirs(schema: dict[str, Any], version: int) -> tuple[Field, ...]:
    """What Kafka's schema says of a version."""
    structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}

    def fields(declared: list[dict[str, Any]]) -> tuple[Field, ...]:
        return tuple(
            field(each)
            for each in declared
            if in_range(each.get("versions", each.get("taggedVersions")), version)
        )

    def field(each: dict[str, Any]) -> Field:
        element = each["type"].removeprefix("[]")
        inner = each.get("fields") or structs.get(element)
        shape = fields(inner) if inner else element
        is_array = each["type"].startswith("[]")
        return Field(
            name=each["name"][0].lower() + each["name"][1:],
            type=("array", shape) if is_array else shape,
            nullable="nullableVersions" in each,
            tag=each.get("tag"),
            default=default(each, is_array, bool(inner), element),
        )

    def default(each: dict[str, Any], is_array: bool, is_struct: bool, element: str) -> Any:
        told = each.get("default")
        if told == "null":
            return None
        if told is not None:
            return int(told)
        # No default, and also a JSON null: the generator takes the empty value of the type.
        return "empty" if is_array or is_struct or element in {"string", "bytes", "uuid"} else 0

    return fields(schema["fields"])


def ours(message: type[Struct], layout: int, left_out: frozenset[str]) -> tuple[Field, ...]:
    """What our declaration says of a layout."""
    return tuple(
        Field(each.kafka, shape(each.type, layout, left_out), each.nullable, each.tag, told_default(each))
        for each in wires(message)
        if each.exists_in(layout) and each.kafka not in left_out
    )


def shape(kind: WireType, layout: int, left_out: frozenset[str]) -> Any:
    """A type as plain values, structures spelt out."""
    match kind:
        case Array():
            return ("array", shape(kind.element, layout, left_out))
        case Nested():
            return ours(kind.message, layout, left_out)
    return kind.name


def told_default(each: Wire) -> Any:
    """The value that a reader takes a missing field for."""
    value = each.omitted
    if isinstance(value, Struct):
        return (
            "empty"
            if all(getattr(value, inner.name) == inner.type.zero for inner in wires(type(value)))
            else value
        )
    return "empty" if value in ("", b"", (), bytes(16)) else value


def left_out(release: str, name: str) -> frozenset[str]:
    """The fields of a message that a release did not have yet."""
    position = RELEASES.index(release)
    return frozenset(
        field for since, message, field, _ in ADDED if message == name and RELEASES.index(since) > position
    )


def types_of(release: str) -> set[int]:
    """The record types of a release."""
    known: set[int] = set()
    for each in RELEASES[: RELEASES.index(release) + 1]:
        known |= TYPES.get(each, set())
        known -= TYPES_DROPPED.get(each, set())
    return known


def name_of(key_type: int, message: type) -> str:
    """Kafka's name of a message; `OffsetCommitValue` serves type 0, too."""
    return "LegacyOffsetCommitValue" if key_type == 0 and issubclass(message, Value) else message.__name__


@pytest.mark.parametrize("release", RELEASES)
def test_types_of_the_release(release: str) -> None:
    """The jar holds the schemas of the types we say it has, under the ids we say, and no other record."""
    found = {
        name: schema for name, schema in schemas(release).items() if not name.startswith("ConsumerProtocol")
    }
    expected = {
        name_of(key_type, message) for key_type in types_of(release) for message in REGISTRY[key_type]
    }
    assert set(found) == expected
    for key_type in types_of(release) - {0, 1}:
        key = found[REGISTRY[key_type][0].__name__]
        assert int(key.get("apiKey", key["validVersions"])) == key_type


@pytest.mark.parametrize("release", RELEASES)
def test_keys_equal_kafkas(release: str) -> None:
    """Every key has the same fields in the same order, in the classic encoding."""
    for key_type in types_of(release):
        key_class = REGISTRY[key_type][0]
        schema = schemas(release)[key_class.__name__]
        lowest = int(schema["validVersions"].split("-")[0])
        assert ours(key_class, 0, frozenset()) == theirs(schema, lowest), key_class
        assert schema["flexibleVersions"] == "none"


@pytest.mark.parametrize("release", RELEASES)
def test_values_equal_kafkas(release: str) -> None:
    """Every version: same fields, order, types, nulls, tags and defaults, but for the two tables above."""
    for key_type in types_of(release):
        value_class = REGISTRY[key_type][1]
        name = name_of(key_type, value_class)
        schema = schemas(release)[name]
        versions = [version for version in value_class.VERSIONS if in_range(schema["validVersions"], version)]
        assert versions, name
        assert versions == list(value_class.VERSIONS) or name == "LegacyOffsetCommitValue"
        for version in versions:
            layout = EARLY if release in EARLY_BODIES.get(name, ()) else version
            assert ours(value_class, layout, left_out(release, name)) == theirs(schema, version), (
                name,
                version,
            )
            flexible = value_class.FLEXIBLE_SINCE is not None and version >= value_class.FLEXIBLE_SINCE
            assert flexible == in_range(schema["flexibleVersions"], version), (name, version)


def test_early_bodies_are_declared() -> None:
    """Exactly the values that name early releases have another layout in some release."""
    declared = {value.__name__ for _, value in REGISTRY.values() if value.EARLY_RELEASES}
    assert declared == set(EARLY_BODIES)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("blob", "name"),
    [(Subscription, "ConsumerProtocolSubscription"), (Assignment, "ConsumerProtocolAssignment")],
)
def test_blobs_equal_kafkas(release: str, blob: type[Versioned], name: str) -> None:
    """The consumer protocol has the same versions and fields, always in the classic encoding."""
    schema = schemas(release)[name]
    assert schema["validVersions"] == f"{blob.VERSIONS[0]}-{blob.VERSIONS[-1]}"
    assert schema["flexibleVersions"] == "none"
    for version in blob.VERSIONS:
        assert ours(blob, version, frozenset()) == theirs(schema, version)
