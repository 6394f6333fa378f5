"""JSON of bounded size, whatever clients have written into it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

#: Tried in turn until the document fits: entries kept of each list or map, characters kept of each text.
_CUTS: Final = ((200, 4096), (50, 1024), (10, 256), (3, 64), (0, 32))

#: Fields that identify something: a part of an id is another id, or none.
_WHOLE: Final = frozenset(
    {
        *("id", "source", "type", "time", "dataschema", "recordedtime", "sequence", "datacontenttype"),
        *("condition_id", "cluster_id", "job_id", "run_id", "key_sha256", "value_sha256"),
    }
)


def _cut(value: Any, entries: int, characters: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else value[: characters - 1] + "…"
    if isinstance(value, dict):
        kept = list(value.items())[:entries]
        return {_cut(key, entries, characters): _cut(item, entries, characters) for key, item in kept}
    if isinstance(value, list | tuple):
        return [_cut(item, entries, characters) for item in value[:entries]]
    return value


def fit_json(document: dict[str, Any], limit: int, inner: str | None = None) -> bytes:
    """The document as JSON of at most ``limit`` bytes.

    A document that is too long has its lists, maps and texts cut, and gets ``truncated: true``; its own
    fields stay, and ids are not cut: it may remain longer than a very small ``limit``. ``inner`` names a field
    whose value is such a document (the ``data`` of an envelope):
    then the fields of both levels stay.
    """
    encoded = msgspec.json.encode(document)
    for entries, characters in _CUTS:
        if len(encoded) <= limit:
            break
        smaller = _cut_fields(document, entries, characters, inner)
        if inner is None:
            smaller["truncated"] = True
        else:
            smaller[inner] = {**_cut_fields(document[inner], entries, characters), "truncated": True}
        encoded = msgspec.json.encode(smaller)
    return encoded


def _cut_fields(
    document: dict[str, Any], entries: int, characters: int, but: str | None = None
) -> dict[str, Any]:
    return {
        name: value if name in _WHOLE else _cut(value, entries, characters)
        for name, value in document.items()
        if name != but
    }
