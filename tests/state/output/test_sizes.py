"""Documents that fit."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.output.sizes import fit_json


def test_a_small_document_is_untouched() -> None:
    """No mark, no cut."""
    assert json.loads(fit_json({"a": [1, 2], "b": "x"}, 100)) == {"a": [1, 2], "b": "x"}


def test_a_large_document_keeps_its_fields_and_says_so() -> None:
    """Lists and texts are cut, numbers and field names stay."""
    document = {"count": 5_000, "members": [{"id": "m" * 20}] * 5_000, "text": "x" * 5_000}
    cut = json.loads(fit_json(document, 4_096))
    assert (cut["count"], cut["truncated"]) == (5_000, True)
    assert 0 < len(cut["members"]) < 5_000
    assert cut["text"].endswith("…")


def test_both_levels_of_an_envelope_keep_their_fields() -> None:
    """The mark is put into the inner document."""
    cut = json.loads(fit_json({"id": "i", "data": {"list": ["x" * 100] * 900, "n": 1}}, 1_024, inner="data"))
    assert (cut["id"], cut["data"]["n"], cut["data"]["truncated"]) == ("i", 1, True)


texts = st.text(st.characters(codec="utf-8"), max_size=3).map(lambda text: text * 2_000)
lists = st.lists(texts, max_size=2).map(lambda items: items * 50)
maps = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), texts | lists, max_size=3)
hostile = st.integers(0, 2**62) | texts | lists | maps | maps.map(lambda entries: [entries] * 5)


@given(st.fixed_dictionaries(dict.fromkeys(("a", "b", "c"), hostile)))
def test_every_document_fits(document: dict[str, Any]) -> None:
    """Whatever strangers write into three fields, 16 KiB are never exceeded."""
    assert len(fit_json(document, 16 * 1024)) <= 16 * 1024
