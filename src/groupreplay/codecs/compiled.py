"""Readers and writers made from the declarations: one function for each message and version, no call for each field.

Readers read what is well formed and raise ``IRREGULAR`` for everything else, without a reason. ``schema.read_fields``
then reads the same bytes again and finds the field, the position and the reason: there is one place that words
errors. Writers write what the version has room for and raise ``UNWRITABLE`` for everything else;
``schema.write_fields`` finds the field and the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import count, groupby
from sys import getsizeof
from typing import Any, Final, Protocol

from groupreplay.codecs.composites import Array, Nested, element_cost
from groupreplay.codecs.errors import TUPLE_COST, Budget, DecodeError, EncodeError
from groupreplay.codecs.primitives import (
    Blob,
    Form,
    Number,
    Text,
    Uuid,
    WireType,
    read_uvarint,
    write_uvarint,
)
from groupreplay.codecs.schema import (
    EARLY,
    Key,
    Struct,
    Value,
    Versioned,
    Wire,
    once,
    plan,
    read_tags,
    wires,
    write_tags,
)

_LONGEST_STRING: Final = 0x7FFF


class _IrregularError(Exception):
    """These bytes are not read here."""


#: What a compiled reader raises for bytes that it does not read.
IRREGULAR: Final = (_IrregularError, DecodeError, struct.error, IndexError, UnicodeDecodeError)


class CompiledReader(Protocol):
    """Reads a whole message from a position on: the message, and the position behind its last known field.

    ``version`` is that of the message, if it has one.
    """

    def __call__(self, data: bytes, at: int, budget: Budget, version: int = 0) -> tuple[Any, int]:
        """Raises ``IRREGULAR``."""


@once
def compiled(message: type[Struct], form: Form) -> CompiledReader:
    """The reader of a message that is laid out in this form."""
    source = _ReaderSource(form)
    lines = ["size = len(data)", *_message_reader(source, message)]
    reader: CompiledReader = source.function("data, at, budget, version=0", lines)
    return reader


class _Source:
    """The text of one function, and the names that it uses."""

    def __init__(self, form: Form, **names: Any) -> None:
        self.form = form
        self._names = names
        self._numbers = count()

    def name(self, value: Any) -> str:
        """A name for a value."""
        name = f"v{next(self._numbers)}"
        self._names[name] = value
        return name

    def variable(self) -> str:
        """A name for a variable."""
        return f"x{next(self._numbers)}"

    def function(self, parameters: str, lines: Iterable[str]) -> Any:
        """The function with these parameters and lines."""
        text = "\n".join([f"def made({parameters}):", *(" " + line for line in lines)])
        scope = {**self._names}
        # The text is made of the declarations in this package alone.
        exec(text, scope)  # noqa: S102
        return scope["made"]


class _ReaderSource(_Source):
    """With the lines that read each type."""

    def __init__(self, form: Form) -> None:
        super().__init__(
            form,
            Irregular=_IrregularError,
            getsizeof=getsizeof,
            new=object.__new__,
            read_tags=read_tags,
            read_uvarint=read_uvarint,
            unpack_from=struct.unpack_from,
        )

    def value(self, kind: WireType, *, nullable: bool, into: str) -> Iterator[str]:
        """The lines that read a value into a variable."""
        match kind:
            case Number():
                unpack = self.name(struct.Struct(">" + kind.code).unpack_from)
                yield from (f"{into}, = {unpack}(data, at)", f"at += {kind.size}")
            case Text() | Blob():
                yield from self._bytes(kind, nullable=nullable, into=into)
            case Uuid():
                yield from (f"{into} = data[at:at + 16]", "at += 16", "if at > size: raise Irregular")
            case Array():
                yield from self._array(kind, nullable=nullable, into=into)
            case Nested():
                yield from self._nested(kind, nullable=nullable, into=into)
            case _:
                raise TypeError(f"no reader of {kind}")

    def _length(self, into: str, *, is_string: bool, nullable: bool) -> Iterator[str]:
        """The lines that read a length; those of a null begin the block of what follows."""
        if self.form.flexible:
            yield from ("n = data[at]", "at += 1", "if n > 127: n, at = read_uvarint(data, at - 1)", "n -= 1")
        else:
            number = struct.Struct(">h" if is_string else ">i")
            yield from (f"n, = {self.name(number.unpack_from)}(data, at)", f"at += {number.size}")
        yield "if n < 0:"
        yield f" {into} = None" if nullable else " raise Irregular"
        yield "else:"

    def _bytes(self, kind: Text | Blob, *, nullable: bool, into: str) -> Iterator[str]:
        yield from self._length(into, is_string=isinstance(kind, Text), nullable=nullable)
        yield " end = at + n"
        if isinstance(kind, Blob):
            yield from (" if end > size: raise Irregular", f" {into} = data[at:end]")
        else:
            errors = "" if kind.errors == "strict" else f"errors={kind.errors!r}"
            yield from (
                f" if end > size or n > {_LONGEST_STRING}: raise Irregular",
                f" {into} = data[at:end].decode({errors})",
                f" if not {into}.isascii(): budget.spend(getsizeof({into}), at)",
            )
        yield " at = end"

    def _array(self, kind: Array, *, nullable: bool, into: str) -> Iterator[str]:
        element, smallest = kind.element, kind.element.smallest(self.form)
        yield from self._length(into, is_string=False, nullable=nullable)
        yield from (f" if n == 0: {into} = ()", " else:")
        yield f"  if n * {smallest} > size - at: raise Irregular"
        yield f"  budget.spend({TUPLE_COST} + n * {element_cost(element)}, at)"
        if isinstance(element, Number):
            yield from (
                f"  {into} = unpack_from(f'>{{n}}{element.code}', data, at)",
                f"  at += n * {element.size}",
            )
            return
        items, item = self.variable(), self.variable()
        yield from (f"  {items} = []", "  for _ in range(n):")
        yield from ("   " + line for line in self.value(element, nullable=False, into=item))
        yield f"   {items}.append({f'budget.shared({item}, at)' if isinstance(element, Text) else item})"
        yield f"  {into} = tuple({items})"

    def _nested(self, kind: Nested, *, nullable: bool, into: str) -> Iterator[str]:
        read = f"{into}, at = {self.name(compiled(kind.message, self.form))}(data, at, budget)"
        if not nullable:
            yield read
            return
        yield from ("mark = data[at]", "at += 1", f"if mark == {kind.null_mark[0]}: {into} = None")
        yield from ("elif mark != 1: raise Irregular", "else:", f" {read}")


def _message_reader(source: _ReaderSource, message: type[Struct]) -> Iterator[str]:
    """The lines that read the fields and make the message."""
    present = [field for field in wires(message) if field.exists_in(source.form.version)]
    inline = [field for field in present if field.tag is None]
    variables = {field.name: source.variable() for field in inline}
    for is_number, run in groupby(inline, key=lambda field: isinstance(field.type, Number)):
        if is_number:
            yield from _numbers(source, [*run], variables)
        else:
            for field in run:
                yield from source.value(field.type, nullable=field.nullable, into=variables[field.name])
    contents = {field.name: source.name(field.default) for field in wires(message)}
    contents |= {field.name: source.name(field.omitted) for field in present} | variables
    contents["unknown_tags"] = "()"
    if source.form.flexible:
        yield from ("if data[at] == 0:", " at += 1", " tags = None", "else:", " tags = {}")
        yield f" at = read_tags({source.name(plan(message, source.form))}, tags, data, at, budget)"
    yield f"message = new({source.name(message)})"
    if issubclass(message, Versioned):
        contents |= {"version": "version", "leftover": "data[at:]"}
    if issubclass(message, Key):
        contents["leftover"] = "data[at:]"
    if issubclass(message, Value):
        contents["early"] = str(source.form.version == EARLY)
    # What no byte decides, such as the dialect of a record that another reader has read.
    others = (each for each in fields(message) if each.name not in contents)
    contents |= {each.name: source.name(each.default) for each in others}
    # Twice as quick as the ``__init__`` of a frozen dataclass.
    setters = {name: source.name(getattr(message, name).__set__) for name in contents}
    yield from (f"{setters[name]}(message, {content})" for name, content in contents.items())
    if source.form.flexible:
        yield "if tags:"
        tagged = [*(field.name for field in present if field.tag is not None), "unknown_tags"]
        yield from (f" if {name!r} in tags: {setters[name]}(message, tags[{name!r}])" for name in tagged)
    yield "return message, at"


def _numbers(source: _ReaderSource, fields: list[Wire], variables: dict[str, str]) -> Iterator[str]:
    """The lines that read numbers which follow each other: all at once."""
    layout = struct.Struct(
        ">" + "".join(field.type.code for field in fields if isinstance(field.type, Number))
    )
    yield f"{', '.join(variables[field.name] for field in fields)}, = {source.name(layout.unpack_from)}(data, at)"
    yield f"at += {layout.size}"


class _UnwritableError(Exception):
    """This content is not written here."""


#: What a compiled writer raises for content that it does not write.
UNWRITABLE: Final = (
    _UnwritableError,
    EncodeError,
    struct.error,
    UnicodeEncodeError,
    AttributeError,
    TypeError,
)


class CompiledWriter(Protocol):
    """Appends the fields of a message; raises ``UNWRITABLE``, and has written a part then."""

    def __call__(self, out: bytearray, message: Any) -> None:
        """Append them."""


@once
def compiled_writer(message: type[Struct], form: Form) -> CompiledWriter:
    """The writer of a message in this layout."""
    source = _WriterSource(form)
    writer: CompiledWriter = source.function("out, message", _message_writer(source, message))
    return writer


class _WriterSource(_Source):
    """With the lines that write each type."""

    def __init__(self, form: Form) -> None:
        super().__init__(
            form,
            Unwritable=_UnwritableError,
            pack=struct.pack,
            write_tags=write_tags,
            write_uvarint=write_uvarint,
        )

    def value(self, kind: WireType, of: str, *, nullable: bool) -> Iterator[str]:
        """The lines that write the value that an expression has."""
        content = self.variable()
        yield f"{content} = {of}"
        if isinstance(kind, Number):
            yield f"out += {self.name(struct.Struct('>' + kind.code).pack)}({content})"
            return
        yield f"if {content} is None:"
        yield from (" " + line for line in self._null(kind, nullable=nullable))
        yield "else:"
        yield from (" " + line for line in self._present(kind, content, nullable=nullable))

    def _null(self, kind: WireType, *, nullable: bool) -> Iterator[str]:
        if not nullable or isinstance(kind, Uuid):
            yield "raise Unwritable"
        elif isinstance(kind, Nested):
            yield f"out += {kind.null_mark!r}"
        else:
            yield from self._length("-1", is_string=isinstance(kind, Text))

    def _length(self, length: str, *, is_string: bool) -> Iterator[str]:
        if self.form.flexible:
            yield from (f"n = {length} + 1", "if n < 128: out.append(n)", "else: write_uvarint(out, n)")
        else:
            yield f"out += {self.name(struct.Struct('>h' if is_string else '>i').pack)}({length})"

    def _present(self, kind: WireType, content: str, *, nullable: bool) -> Iterator[str]:
        match kind:
            case Text():
                yield f"{content} = {content}.encode(errors={kind.errors!r})"
                yield f"if len({content}) > {_LONGEST_STRING}: raise Unwritable"
                yield from self._length(f"len({content})", is_string=True)
                yield f"out += {content}"
            case Blob():
                yield from self._length(f"len({content})", is_string=False)
                yield f"out += {content}"
            case Uuid():
                yield from (f"if len({content}) != 16: raise Unwritable", f"out += {content}")
            case Array():
                yield from self._length(f"len({content})", is_string=False)
                yield from self._elements(kind.element, content)
            case Nested():
                mark = ["out.append(1)"] if nullable else []
                writer = self.name(compiled_writer(kind.message, self.form))
                yield from (*mark, f"{writer}(out, {content})")
            case _:
                raise TypeError(f"no writer of {kind}")

    def _elements(self, element: WireType, content: str) -> Iterator[str]:
        if isinstance(element, Number):
            yield f"out += pack(f'>{{len({content})}}{element.code}', *{content})"
            return
        item = self.variable()
        yield f"for {item} in {content}:"
        yield from (" " + line for line in self.value(element, item, nullable=False))


def _message_writer(source: _WriterSource, message: type[Struct]) -> Iterator[str]:
    """The lines that write the fields that this version has, if the others hold their defaults."""
    declared = plan(message, source.form)
    for name, default in declared.absent:
        yield f"if message.{name} != {source.name(default)}: raise Unwritable"
    present = [field for field in wires(message) if field.exists_in(source.form.version)]
    inline = [field for field in present if field.tag is None]
    for are_numbers, run in groupby(inline, key=lambda field: isinstance(field.type, Number)):
        if are_numbers:
            numbers = [*run]
            layout = ">" + "".join(field.type.code for field in numbers if isinstance(field.type, Number))
            contents = ", ".join(f"message.{field.name}" for field in numbers)
            yield f"out += {source.name(struct.Struct(layout).pack)}({contents})"
        else:
            for field in run:
                yield from source.value(field.type, f"message.{field.name}", nullable=field.nullable)
    if source.form.flexible:
        tagged = [field for field in present if field.tag is not None]
        absent = [f"message.{field.name} == {source.name(field.omitted)}" for field in tagged]
        yield f"if {' and '.join(['not message.unknown_tags', *absent])}: out.append(0)"
        yield from _only_uuid(source, tagged)
        yield f"else: write_tags({source.name(declared)}, out, message)"
    else:
        yield "if message.unknown_tags: raise Unwritable"


def _only_uuid(source: _WriterSource, tagged: list[Wire]) -> Iterator[str]:
    """The lines that write a single tagged id, such as that of the topic in every commit since 4.1."""
    if len(tagged) == 1 and isinstance(tagged[0].type, Uuid):
        content = f"message.{tagged[0].name}"
        head = bytearray(b"\1")
        write_uvarint(head, tagged[0].tag or 0)
        write_uvarint(head, 16)
        yield f"elif not message.unknown_tags and len({content}) == 16:"
        yield f" out += {bytes(head)!r}"
        yield f" out += {content}"
