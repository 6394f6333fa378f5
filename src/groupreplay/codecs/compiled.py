"""Readers made from the declarations: one function for each message and version, without a call for each field.

They read what is well formed and raise ``IRREGULAR`` for everything else, without a reason. ``schema.read_fields`` then
reads the same bytes again and finds the field, the position and the reason: there is one place that words errors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import fields
from itertools import count, groupby
from sys import getsizeof
from typing import Any, Final, Protocol

from groupreplay.codecs.composites import Array, Nested, element_cost
from groupreplay.codecs.errors import TUPLE_COST, Budget, DecodeError
from groupreplay.codecs.primitives import Blob, Form, Number, Text, Uuid, WireType, read_uvarint
from groupreplay.codecs.schema import EARLY, Key, Struct, Value, Versioned, Wire, once, plan, read_tags, wires

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
    source = _Source(form)
    lines = ["def read(data, at, budget, version=0):", " size = len(data)"]
    lines += [" " + line for line in _message(source, message)]
    scope: dict[str, Any] = {**source.names}
    # The text is made of the declarations in this package alone.
    exec("\n".join(lines), scope)  # noqa: S102
    reader: CompiledReader = scope["read"]
    return reader


class _Source:
    """The names that the text of one reader uses, and the lines that read each type."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.names: dict[str, Any] = {
            "Irregular": _IrregularError,
            "getsizeof": getsizeof,
            "new": object.__new__,
            "read_tags": read_tags,
            "read_uvarint": read_uvarint,
            "unpack_from": struct.unpack_from,
        }
        self._numbers = count()

    def name(self, value: Any) -> str:
        """A name for a value."""
        name = f"v{next(self._numbers)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        """A name for a variable."""
        return f"x{next(self._numbers)}"

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


def _message(source: _Source, message: type[Struct]) -> Iterator[str]:
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


def _numbers(source: _Source, fields: list[Wire], variables: dict[str, str]) -> Iterator[str]:
    """The lines that read numbers which follow each other: all at once."""
    layout = struct.Struct(
        ">" + "".join(field.type.code for field in fields if isinstance(field.type, Number))
    )
    yield f"{', '.join(variables[field.name] for field in fields)}, = {source.name(layout.unpack_from)}(data, at)"
    yield f"at += {layout.size}"
