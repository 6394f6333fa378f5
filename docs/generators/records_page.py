"""``docs/records.md``, from the declarations; no record has its name here, so that the page cannot fall behind."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.offsets import OffsetCommitValue
from groupreplay.codecs.primitives import WireType
from groupreplay.codecs.registry import REGISTRY, VERSION_WITH_EXPIRY, WRITTEN_SINCE
from groupreplay.codecs.schema import EARLY, Struct, Value, Versioned, Wire, wires
from groupreplay.codecs.subscription import Assignment, ConnectAssignment, ConnectMetadata, Subscription

_INTRODUCTION = """\
# The records of `__consumer_offsets`

This page is made from the declarations in `codecs/` by `make docs`; a test fails when it is out of date.

Every record is written by the group coordinator: the broker that leads the partition to which the group's
id hashes. A key is an int16 type and the key's fields. A value is an int16 version and the value's fields. A
record without a value is a tombstone. The newest record of a key counts. Types 9 and 18 are unassigned
today; 9 was used by previews.

How to read the tables:

- Names are Kafka's, as `groupreplay decode` prints them; the name in parentheses is that in the code, where the two
  differ in more than case. A dot leads into a structure, `[]` into the elements of a list.
- *Versions* are those of the value.
- A field with a *tag* is skipped by readers that do not know it. It is left out of the bytes when it has the value
  under *if absent*.
- *if absent* is also the value that a reader takes for a field that the version does not have. For some fields that
  may be null it is *empty*; null is then written in the bytes.
- Strings, bytes and lists have int16 and int32 lengths before the *flexible* versions, and varint lengths in them.
"""

_BLOBS_HEADING = """\
## Inside the members of classic groups

`subscription` and `assignment` of a member are bytes to the coordinator. What they hold depends on the
group's protocol type: `consumer` has the first two of these messages, `connect` the last two. They start
with an int16 version and never use the flexible encoding; a version above those listed is read as the newest.
"""


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    parts += [_record(key_type) for key_type in sorted(REGISTRY)]
    parts.append(_BLOBS_HEADING)
    parts += [_blob(blob) for blob in (Subscription, Assignment, ConnectMetadata, ConnectAssignment)]
    return "\n".join(parts)


def _record(key_type: int) -> str:
    key, value = REGISTRY[key_type]
    fields = ", ".join(f"`{each.kafka}`{_own_name(each)} {each.type.name}" for each in wires(key))
    return "\n".join(
        [
            f"## {key_type} {key.__name__.removesuffix('Key')}",
            "",
            f"Key: {fields}. {_text(key)}",
            "",
            f"Value, {_versions_of(value)}: {_text(value)}",
            "",
            *(_written(value) if key_type else ()),
            *_table(value),
            "",
        ]
    )


def _written(value: type[Value]) -> Iterator[str]:
    """By which release which version is written."""
    if value not in WRITTEN_SINCE:
        return
    own = f" An offset with a retention time of its own is always written as version {VERSION_WITH_EXPIRY}."
    yield (
        "Which version is written follows from `inter.broker.protocol.version` of the broker, and from 4.0 on from its "
        f"release.{own if value is OffsetCommitValue else ''}"
    )
    yield ""
    yield "| from | version written |"
    yield "| --- | --- |"
    for since, version in WRITTEN_SINCE[value]:
        yield f"| {since} | {version} |"
    yield ""


def _blob(blob: type[Versioned]) -> str:
    return "\n".join(
        [
            f"### {blob.__name__}",
            "",
            f"{_versions_of(blob).capitalize()}: {_text(blob)}",
            "",
            *_table(blob),
            "",
        ]
    )


def _text(message: type[Struct]) -> str:
    """The docstring with its paragraphs on one line each."""
    paragraphs = inspect.cleandoc(message.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _versions_of(message: type[Versioned]) -> str:
    first, last = message.VERSIONS[0], message.VERSIONS[-1]
    text = f"version {first}" if first == last else f"versions {first} to {last}"
    if message.FLEXIBLE_SINCE is not None:
        since = message.FLEXIBLE_SINCE
        text += f", flexible since {since}" if since > first else ", flexible"
    return text


def _table(message: type[Versioned]) -> Iterator[str]:
    early = message.EARLY_RELEASES if issubclass(message, Value) else ""
    yield "| field | type | versions | null | tag | if absent |"
    yield "| --- | --- | --- | --- | --- | --- |"
    yield from _rows(message, "", early)


def _rows(message: type[Struct], path: str, early: str) -> Iterator[str]:
    for each in wires(message):
        cells = (
            f"`{path}{each.kafka}`{_own_name(each)}",
            each.type.name,
            _versions(each, early),
            "yes" if each.nullable else "",
            "" if each.tag is None else str(each.tag),
            _absent(each, early),
        )
        yield f"| {' | '.join(cells)} |"
        inner, step = _inside(each.type)
        if inner is not None:
            yield from _rows(inner, f"{path}{each.kafka}{step}.", early)


def _inside(kind: WireType) -> tuple[type[Struct] | None, str]:
    if isinstance(kind, Array):
        return _inside(kind.element)[0], "[]"
    return (kind.message if isinstance(kind, Nested) else None), ""


def _own_name(each: Wire) -> str:
    plain = each.name.replace("_", "").lower()
    return "" if plain == each.kafka.lower() else f" (`{each.name}`)"


def _versions(each: Wire, early: str) -> str:
    if each.until == EARLY:
        return f"only in {early}"
    if each.since == 0 and early:
        return f"not in {early}"
    if each.until is not None:
        return str(each.since) if each.since == each.until else f"{each.since} to {each.until}"
    return "all" if each.since <= 0 else f"{each.since}+"


def _absent(each: Wire, early: str) -> str:
    """What stands for a field that the bytes do not hold; nothing for a field that they always hold."""
    if each.tag is None and _versions(each, early) == "all":
        return ""
    value = each.omitted
    if isinstance(value, Struct):
        return "empty"
    if isinstance(value, bytes) and value.strip(b"\x00") == b"" and len(value) == 16:
        return "zero"
    return "empty" if value in ((), b"", "") else "null" if value is None else str(value)
