"""The generated page."""

from generators.records_page import page
from groupreplay.codecs import REGISTRY
from groupreplay.codecs.schema import wires


def test_every_record_and_field_is_on_it() -> None:
    """Each type has its section, each field of its value a row."""
    text = page()
    for key_type, (key, value) in REGISTRY.items():
        section = text.split(f"\n## {key_type} {key.__name__.removesuffix('Key')}\n")[1].split("\n## ")[0]
        for each in wires(value):
            assert f"| `{each.kafka}`" in section


def test_early_and_later_fields() -> None:
    """A preview's field and one that it did not have are told apart from fields of a version."""
    lines = page().splitlines()
    assert "| `targetMemberEpoch` | int32 | only in 3.7 |  |  | 0 |" in lines
    assert "| `metadataHash` | int64 | not in 3.9 and 4.0 |  |  | 0 |" in lines
    assert "| `expireTimestamp` (`expire_timestamp_ms`) | int64 | 1 |  |  | -1 |" in lines
    assert "| `topicId` | uuid | 4+ |  | 0 | zero |" in lines
