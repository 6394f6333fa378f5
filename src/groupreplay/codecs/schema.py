"""Declares messages as dataclasses, and reads and writes declared messages.

A message is a frozen dataclass whose fields are declared with `wire(...)`: the wire type, the versions that
have the field, whether it may be null, its default, its tag, and Kafka's name for it. Readers and writers are
resolved once per (message, version) into a `Plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

from groupreplay.codecs.errors import TAG_COST, Budget, CodecError, DecodeError, EncodeError
from groupreplay.codecs.primitives import (
    STRING,
    Form,
    Reader,
    WireType,
    Writer,
    read_uvarint,
    short,
    write_uvarint,
)

#: Unknown tags as they were read, ascending: (tag, payload).
Tags = tuple[tuple[int, bytes], ...]

#: A number below version 0: the layout that a preview release wrote as version 0 and a later release changed.
EARLY = -1

_METADATA = "wire"

_P = ParamSpec("_P")
_T = TypeVar("_T")


def once(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """`functools.cache` with the function's signature; mypy treats classes as unhashable arguments."""
    return cast("Callable[_P, _T]", cache(function))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The declaration of one field."""

    name: str
    kafka: str
    type: WireType
    since: int
    until: int | None
    nullable: bool
    tag: int | None
    default: Any
    omitted: Any

    def exists_in(self, version: int) -> bool:
        """Whether this version of the message has the field."""
        return self.since <= version and (self.until is None or version <= self.until)


def wire(
    kind: WireType,
    *,
    since: int = EARLY,
    until: int | None = None,
    nullable: bool = False,
    tag: int | None = None,
    default: Any = MISSING,
    omitted: Any = MISSING,
    kafka: str = "",
) -> Any:
    """Declare a field.

    Args:
        kind: its type on the wire.
        since: first version that has it; 0 for what a preview release did not have yet.
        until: last version that has it, None for none; EARLY for what only a preview release had.
        nullable: whether null is allowed.
        tag: its tag, when it travels in the tagged section; it is then left out when equal to its default.
        default: its value in versions without it; a field without a default must be given.
        omitted: the value of a missing tag, where it is not the default. Kafka's schemas have
            ``"default": null`` for some tags, for which its generator uses the empty value of the type; so
            brokers write null explicitly there.
        kafka: its name in Kafka's schemas and JSON, where that is not the camel case of ours.
    """
    return field(default=default, metadata={_METADATA: (kind, since, until, nullable, tag, omitted, kafka)})


@once
def wires(message: type) -> tuple[Wire, ...]:
    """The declared fields of a message in wire order."""
    declared = []
    for each in fields(message):
        if _METADATA in each.metadata:
            kind, since, until, nullable, tag, omitted, kafka = each.metadata[_METADATA]
            default = kind.zero if each.default is MISSING else each.default
            declared.append(
                Wire(
                    name=each.name,
                    kafka=kafka or camel_case(each.name),
                    type=kind,
                    since=since,
                    until=until,
                    nullable=nullable,
                    tag=tag,
                    default=default,
                    omitted=default if omitted is MISSING else omitted,
                )
            )
    return tuple(declared)


def camel_case(name: str) -> str:
    """``member_epoch`` to ``memberEpoch``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Base of all declarations: a message, or a structure inside one."""

    #: Tags of a later release, and tags that Kafka would omit because they have their default; only in
    #: flexible encodings.
    unknown_tags: Tags = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Struct):
    """Base of the record keys; always in the classic encoding.

    Two keys that differ only in `leftover` are equal for a broker, which ignores such bytes.
    """

    KEY_TYPE: ClassVar[int]

    #: The group id; every key starts with it. Keys of classic groups and offsets name it "group" in Kafka's schemas.
    group: str = wire(STRING, kafka="groupId")
    #: Bytes behind the last known field.
    leftover: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned(Struct):
    """Base of record values and of blobs: data that starts with an int16 version."""

    #: The versions that are read and written.
    VERSIONS: ClassVar[range] = range(1)
    #: First version in the flexible encoding, or None.
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    version: int
    #: Bytes behind the last known field; Kafka ignores them, here they are kept.
    leftover: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Versioned):
    """Base of the record values."""

    #: The preview releases whose version 0 differs from today's, or "".
    EARLY_RELEASES: ClassVar[str] = ""
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    #: Whether the bytes have the layout of those releases; fields they lack then hold their defaults.
    early: bool = field(default=False, repr=False)
    #: Whose dialect the bytes had, empty for Kafka's own; encoded are always Kafka's bytes.
    dialect: str = field(default="", repr=False, compare=False)


def quick(message: type[_T]) -> type[_T]:
    """The message with an ``__init__`` that sets its slots directly: that of a frozen dataclass takes twice as long."""
    scope: dict[str, Any] = {}
    arguments, lines = [], []
    for each in fields(cast("Any", message)):
        scope[f"set_{each.name}"] = getattr(message, each.name).__set__
        scope[f"default_{each.name}"] = each.default
        arguments.append(each.name if each.default is MISSING else f"{each.name}=default_{each.name}")
        lines.append(f" set_{each.name}(self, {each.name})")
    # The text is made of the declarations in this package alone.
    exec("\n".join([f"def __init__(self, *, {', '.join(arguments)}):", *lines]), scope)  # noqa: S102
    message.__init__ = scope["__init__"]  # type: ignore[method-assign]
    return message


@dataclass(frozen=True, slots=True)
class TaggedField:
    """How one tagged field is read and written."""

    name: str
    omitted: Any
    read: Reader
    write: Writer


@dataclass(frozen=True, slots=True)
class Plan:
    """A message at one version, resolved into readers and writers in wire order."""

    flexible: bool
    early: bool
    readers: tuple[tuple[str, Reader], ...]
    writers: tuple[tuple[str, Writer], ...]
    tagged: Mapping[int, TaggedField]
    #: Values of missing tags, where they are not the defaults.
    omitted: dict[str, Any]
    #: Fields that this version does not have, and the values that they must hold.
    absent: tuple[tuple[str, Any], ...]


@once
def plan(message: type, form: Form) -> Plan:
    """The plan of `message` laid out in `form`."""
    present = [each for each in wires(message) if each.exists_in(form.version)]
    inline = [each for each in present if each.tag is None]
    return Plan(
        flexible=form.flexible,
        early=form.version == EARLY,
        readers=tuple((each.name, each.type.reader(form, each.nullable)) for each in inline),
        writers=tuple((each.name, each.type.writer(form, each.nullable)) for each in inline),
        tagged={
            each.tag: TaggedField(
                each.name,
                each.omitted,
                each.type.reader(form, each.nullable),
                each.type.writer(form, each.nullable),
            )
            for each in present
            if each.tag is not None
        },
        omitted={each.name: each.omitted for each in present if each.omitted != each.default},
        absent=tuple(
            (each.name, each.default) for each in wires(message) if not each.exists_in(form.version)
        ),
    )


@once
def plan_of(message: type[Versioned], version: int, early: bool = False) -> Plan:
    """The plan of a versioned message at this version, or of the early body under this version."""
    return plan(message, form_of(message, version, early))


@once
def form_of(message: type[Versioned], version: int, early: bool = False) -> Form:
    """The layout of a versioned message at this version, or of the early body under this version."""
    flexible_since = message.FLEXIBLE_SINCE
    flexible = flexible_since is not None and version >= flexible_since
    return Form(EARLY if early else version, flexible)


def read_fields(plan: Plan, data: bytes, at: int, budget: Budget) -> tuple[dict[str, Any], int]:
    """Read every field of a plan; raises `DecodeError` with the path of the field."""
    values = plan.omitted.copy()
    name = ""
    try:
        for name, read in plan.readers:
            values[name], at = read(data, at, budget)
        if plan.flexible:
            name = "tags"
            # Most messages have no tags, and this code runs for every record.
            at = at + 1 if data[at : at + 1] == b"\x00" else read_tags(plan, values, data, at, budget)
    except DecodeError as error:
        error.inside(name)
        raise
    return values, at


def read_tags(plan: Plan, values: dict[str, Any], data: bytes, at: int, budget: Budget) -> int:
    """Read the tagged section into ``values``: the position behind it; raises `DecodeError`."""
    if plan.early:
        # The previews defined no tags; with them many more bytes would fit both layouts.
        raise DecodeError(at, "has tags, which no preview wrote")
    count, at = read_uvarint(data, at)
    kept: list[tuple[int, bytes]] = []
    previous = -1
    for _ in range(count):
        tag, start = read_uvarint(data, at)
        if tag <= previous:
            raise DecodeError(at, f"has tag {tag} behind tag {previous}; tags ascend")
        size, start = read_uvarint(data, start)
        end = start + size
        if end > len(data):
            raise short(data, start, size)
        known = plan.tagged.get(tag)
        if known is not None:
            values[known.name] = _read_tagged(known, data, start, end, budget)
        if known is None or values[known.name] == known.omitted:
            budget.spend(TAG_COST, at)
            kept.append((tag, data[start:end]))
        previous, at = tag, end
    if kept:
        values["unknown_tags"] = tuple(kept)
    return at


def _read_tagged(known: TaggedField, data: bytes, start: int, end: int, budget: Budget) -> Any:
    try:
        value, at = known.read(data, start, budget)
        if at != end:
            raise DecodeError(start, f"takes {at - start} bytes, its tag says {end - start}")
    except DecodeError as error:
        error.inside(known.name)
        raise
    return value


def write_fields(plan: Plan, out: bytearray, value: Struct) -> None:
    """Append every field of a plan; raises `EncodeError` with the path of the field."""
    name = ""
    try:
        for name, default in plan.absent:
            if getattr(value, name) != default:
                raise EncodeError("is set, but this version has no such field")
        for name, write in plan.writers:
            write(out, getattr(value, name))
        name = "tags"
        if plan.flexible:
            write_tags(plan, out, value)
        elif value.unknown_tags:
            raise EncodeError("are set, but this version has no tags")
    except CodecError as error:
        error.inside(name)
        raise


def write_tags(plan: Plan, out: bytearray, value: Struct) -> None:
    """Append the tagged section; raises `EncodeError`."""
    tags = dict(value.unknown_tags)
    for tag, known in plan.tagged.items():
        content = getattr(value, known.name)
        if content != known.omitted:
            tags[tag] = _tagged_payload(known, content)
    write_uvarint(out, len(tags))
    for tag, written in sorted(tags.items()):
        write_uvarint(out, tag)
        write_uvarint(out, len(written))
        out += written


def _tagged_payload(known: TaggedField, content: Any) -> bytes:
    payload = bytearray()
    try:
        known.write(payload, content)
    except EncodeError as error:
        error.inside(known.name)
        raise
    return bytes(payload)
