"""Writers made from the declarations, the counterpart of ``compiled``: without a call for each field.

They write what the version has room for and raise ``UNWRITABLE`` for everything else, without a reason.
``schema.write_fields`` then finds the field and the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count, groupby
from typing import Any, Final, Protocol

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.errors import EncodeError
from groupreplay.codecs.primitives import Blob, Form, Number, Text, Uuid, WireType, write_uvarint
from groupreplay.codecs.schema import Struct, Wire, once, plan, wires, write_tags

_LONGEST_STRING: Final = 0x7FFF


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
    source = _Source(form)
    lines = ["def write(out, message):", *(" " + line for line in _message(source, message))]
    scope: dict[str, Any] = {**source.names}
    # The text is made of the declarations in this package alone.
    exec("\n".join(lines), scope)  # noqa: S102
    writer: CompiledWriter = scope["write"]
    return writer


class _Source:
    """The names that the text of one writer uses, and the lines that write each type."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.names: dict[str, Any] = {
            "Unwritable": _UnwritableError,
            "pack": struct.pack,
            "write_tags": write_tags,
            "write_uvarint": write_uvarint,
        }
        self._numbers = count()

    def name(self, value: Any) -> str:
        """A name for a value."""
        name = f"v{next(self._numbers)}"
        self.names[name] = value
        return name

    def value(self, kind: WireType, of: str, *, nullable: bool) -> Iterator[str]:
        """The lines that write the value that an expression has."""
        content = f"x{next(self._numbers)}"
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
        item = f"x{next(self._numbers)}"
        yield f"for {item} in {content}:"
        yield from (" " + line for line in self.value(element, item, nullable=False))


def _message(source: _Source, message: type[Struct]) -> Iterator[str]:
    """The lines that write the fields that this version has, if the others hold their defaults."""
    declared = plan(message, source.form)
    for name, default in declared.absent:
        yield f"if message.{name} != {source.name(default)}: raise Unwritable"
    present = [field for field in wires(message) if field.exists_in(source.form.version)]
    inline = [field for field in present if field.tag is None]
    for code, fields in groupby(inline, key=lambda field: isinstance(field.type, Number)):
        if code:
            numbers = [*fields]
            layout = ">" + "".join(field.type.code for field in numbers if isinstance(field.type, Number))
            contents = ", ".join(f"message.{field.name}" for field in numbers)
            yield f"out += {source.name(struct.Struct(layout).pack)}({contents})"
        else:
            for field in fields:
                yield from source.value(field.type, f"message.{field.name}", nullable=field.nullable)
    if source.form.flexible:
        tagged = [field for field in present if field.tag is not None]
        absent = [f"message.{field.name} == {source.name(field.omitted)}" for field in tagged]
        yield f"if {' and '.join(['not message.unknown_tags', *absent])}: out.append(0)"
        yield from _only_uuid(source, tagged)
        yield f"else: write_tags({source.name(declared)}, out, message)"
    else:
        yield "if message.unknown_tags: raise Unwritable"


def _only_uuid(source: _Source, tagged: list[Wire]) -> Iterator[str]:
    """The lines that write a single tagged id, such as that of the topic in every commit since 4.1."""
    if len(tagged) == 1 and isinstance(tagged[0].type, Uuid):
        content = f"message.{tagged[0].name}"
        head = bytearray(b"\1")
        write_uvarint(head, tagged[0].tag or 0)
        write_uvarint(head, 16)
        yield f"elif not message.unknown_tags and len({content}) == 16:"
        yield f" out += {bytes(head)!r}"
        yield f" out += {content}"
