"""Wire types that consist of others: structures and arrays."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Protocol

from groupreplay.codecs.errors import (
    ELEMENT_COST,
    OBJECT_COST,
    SLOT_COST,
    TUPLE_COST,
    Budget,
    DecodeError,
    EncodeError,
)
from groupreplay.codecs.primitives import (
    Form,
    Number,
    Reader,
    Text,
    WireType,
    Writer,
    length_reader,
    length_writer,
    null,
    write_null,
)
from groupreplay.codecs.schema import Struct, plan, read_fields, wires, write_fields


@dataclass(frozen=True, slots=True)
class Nested:
    """A structure as a field. A nullable one has a byte in front: `null_mark`, or 1 for present.

    Kafka writes the mark of an ordinary field as an int8 (-1 for null), that of a tagged one as a varint (0).
    """

    message: type[Struct]
    null_mark: bytes = b"\xff"
    zero: None = None

    @property
    def name(self) -> str:
        """The structure's own name."""
        return self.message.__name__

    @property
    def cost(self) -> int:
        """The object and its fixed parts."""
        declared = wires(self.message)
        return OBJECT_COST + SLOT_COST * (len(declared) + 1) + sum(each.type.cost for each in declared)

    def smallest(self, form: Form) -> int:
        """The sum of the smallest fields."""
        present = [each for each in wires(self.message) if each.exists_in(form.version) and each.tag is None]
        return sum(each.type.smallest(form) for each in present) + int(form.flexible)

    def reader(self, form: Form, nullable: bool) -> Reader:
        """Reads an instance, or None when nullable."""
        message, null_mark, inner = self.message, self.null_mark, plan(self.message, form)

        def read(data: bytes, at: int, budget: Budget) -> tuple[Any, int]:
            values, at = read_fields(inner, data, at, budget)
            return message(**values), at

        def read_nullable(data: bytes, at: int, budget: Budget) -> tuple[Any, int]:
            mark = data[at : at + 1]
            if mark == null_mark:
                return None, at + 1
            if mark != b"\x01":
                raise DecodeError(at, f"has no mark that says null ({null_mark.hex()}) or present (01)")
            return read(data, at + 1, budget)

        return read_nullable if nullable else read

    def writer(self, form: Form, nullable: bool) -> Writer:
        """Writes an instance, or None when nullable."""
        null_mark, inner = self.null_mark, plan(self.message, form)

        def write(out: bytearray, value: Struct | None) -> None:
            if value is None:
                if not nullable:
                    raise EncodeError("is None, which this field may not be")
                out += null_mark
                return
            if nullable:
                out += b"\x01"
            write_fields(inner, out, value)

        return write


@dataclass(frozen=True, slots=True)
class Array:
    """A count and that many elements; a tuple here."""

    element: WireType
    zero: tuple[()] = ()

    @property
    def name(self) -> str:
        """As in Kafka's schemas: ``[]int32``."""
        return f"[]{self.element.name}"

    @property
    def cost(self) -> int:
        """Nothing: an array is charged when its count is known, and all empty tuples are one object."""
        return 0

    def smallest(self, form: Form) -> int:
        """The count alone."""
        return 1 if form.flexible else 4

    def reader(self, form: Form, nullable: bool) -> Reader:
        """Reads a tuple, or None when nullable."""
        count_of = length_reader(form)
        cost, smallest = element_cost(self.element), self.element.smallest(form)
        read_elements = _elements_reader(self.element, form)

        def read(data: bytes, at: int, budget: Budget) -> tuple[tuple[Any, ...] | None, int]:
            count, start = count_of(data, at)
            if count == 0:
                return (), start
            if count < 0:
                if nullable:
                    return None, start
                raise null(at, count)
            if count * smallest > len(data) - start:
                raise DecodeError(at, f"counts {count} elements, {len(data) - start} bytes are left")
            budget.spend(TUPLE_COST + count * cost, at)
            return read_elements(data, start, count, budget)

        return read

    def writer(self, form: Form, nullable: bool) -> Writer:
        """Writes a tuple, or None when nullable."""
        write_count = length_writer(form)
        write_element = self.element.writer(form, False)

        def write(out: bytearray, values: tuple[Any, ...] | None) -> None:
            if values is None:
                write_null(out, write_count, nullable)
                return
            write_count(out, len(values))
            for index, value in enumerate(values):
                try:
                    write_element(out, value)
                except EncodeError as error:
                    error.inside(f"[{index}]")
                    raise

        return write


def element_cost(element: WireType) -> int:
    """The charge for one element in advance; a string is charged when it is read and new."""
    if isinstance(element, Number):
        return SLOT_COST + element.cost  # unpacked into a tuple at once, without a list in between
    return ELEMENT_COST if isinstance(element, Text) else ELEMENT_COST + element.cost


class _ElementsReader(Protocol):
    def __call__(
        self, data: bytes, at: int, count: int, budget: Budget, /
    ) -> tuple[tuple[Any, ...], int]: ...


def _elements_reader(element: WireType, form: Form) -> _ElementsReader:
    """The reader of `count` elements; numbers are read in one go."""
    if isinstance(element, Number):
        code, size = element.code, element.size

        def read_numbers(data: bytes, at: int, count: int, budget: Budget) -> tuple[tuple[int, ...], int]:
            return struct.unpack_from(f">{count}{code}", data, at), at + count * size

        return read_numbers
    read_one = element.reader(form, False)

    def read_string(data: bytes, at: int, budget: Budget) -> tuple[str, int]:
        text, end = read_one(data, at, budget)
        return budget.shared(text, at), end

    read = read_string if isinstance(element, Text) else read_one

    def read_elements(data: bytes, at: int, count: int, budget: Budget) -> tuple[tuple[Any, ...], int]:
        values: list[Any] = []
        try:
            for _ in range(count):
                value, at = read(data, at, budget)
                values.append(value)
        except DecodeError as error:
            error.inside(f"[{len(values)}]")
            raise
        return tuple(values), at

    return read_elements
