"""Records as the JSON that Kafka's own formatters print.

It follows Kafka's generated JSON converters and `CoordinatorRecordMessageFormatter`; the names come from the
declarations.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.primitives import Blob, Uuid, WireType, is_text, uuid_text
from groupreplay.codecs.schema import EARLY, Key, Struct, Value, Versioned, wires

#: UTF-8's form of a surrogate, also cut: one replacement character for Java, one for each byte for Python.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def to_json(key: Key, value: Value | None) -> dict[str, Any]:
    """``{"key": {"type", "data"}, "value": {"version", "data"}}``; the value of a tombstone is None.

    Field names are Kafka's, uuids are in Kafka's text form, bytes in base64. As in Kafka a field is left out
    where the version does not have it, a tagged field also where the bytes omit it; unknown tags always. A value in
    another dialect than Kafka's has ``dialect``.
    """
    return {
        "key": {"type": key.KEY_TYPE, "data": _fields(key, 0)},
        "value": None if value is None else _value_json(value),
    }


def _value_json(value: Value) -> dict[str, Any]:
    dialect = {"dialect": value.dialect} if value.dialect else {}
    fields = _fields(value, EARLY if value.early else value.version)
    return {"version": value.version, **dialect, "data": fields}


def blob_json(blob: Versioned) -> dict[str, Any]:
    """The fields of a blob inside a member; of a later version than we know, those of the newest that we know."""
    data: dict[str, Any] = _as_java(_fields(blob, min(blob.version, blob.VERSIONS[-1])))
    return data


def _as_java(content: Any) -> Any:
    """Texts whose bytes are no UTF-8, with Java's replacement characters."""
    if isinstance(content, dict):
        return {name: _as_java(inner) for name, inner in content.items()}
    if isinstance(content, list):
        return [_as_java(inner) for inner in content]
    if isinstance(content, str) and not is_text(content):
        raw = content.encode("utf-8", "surrogateescape")
        return _SURROGATE.sub(b"\xff", raw).decode("utf-8", "replace")
    return content


def _fields(message: Struct, version: int) -> dict[str, Any]:
    data = {}
    for each in wires(type(message)):
        content = getattr(message, each.name)
        if each.exists_in(version) and not (each.tag is not None and content == each.omitted):
            data[each.kafka] = _plain(each.type, content, version)
    return data


def _plain(kind: WireType, content: Any, version: int) -> Any:
    if content is None:
        return None
    if isinstance(kind, Array):
        return [_plain(kind.element, element, version) for element in content]
    if isinstance(kind, Nested):
        return _fields(content, version)
    if isinstance(kind, Uuid):
        return uuid_text(content)
    if isinstance(kind, Blob):
        return base64.b64encode(content).decode()
    return content
