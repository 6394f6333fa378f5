"""Log lines: one a record, no secrets, no control characters."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from groupreplay.streaming.config.logs import configure_logs, report_progress, without_secrets

SECRETS = [
    "sasl.password=hunter2",
    "ssl.key.password: hunter2",
    "{'sasl.password': 'hunter2', 'a': 'b'}",
    '{"sasl.oauthbearer.client.secret": "hunter2"}',
    'sasl.jaas.config=x.PlainLoginModule required username="u" password="hunter2 hunter2";',
    'kafka.sasl.jaas.config -> required password="hunter2"',
    "access_token=hunter2&x=y",
    "ssl.keystore.key=hunter2",
    "ssl.key.pem=hunter2",
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_masked(text: str) -> None:
    """In whatever form a secret setting got into a text, its value does not stay."""
    assert "hunter2" not in without_secrets(text)


@pytest.mark.parametrize(
    "text", ["read 5 of 6 partitions", "ssl.truststore.location=/ca.pem", "security.protocol=SASL_SSL"]
)
def test_other_text_stays(text: str) -> None:
    """What is no secret is not touched."""
    assert without_secrets(text) == text


def logged(form: str, level: str, *calls: tuple[str, str]) -> str:
    """What is written when these (level, message) are logged."""
    stream = io.StringIO()
    configure_logs(level, form, stream)  # type: ignore[arg-type]
    try:
        for at, message in calls:
            logging.getLogger("groupreplay.streaming.test").log(logging.getLevelName(at), message)
    finally:
        configure_logs()
    return stream.getvalue()


def test_text_lines() -> None:
    """A line has the time in UTC, level, logger and message, escaped; lower levels are left out."""
    text = logged("text", "INFO", ("DEBUG", "no"), ("INFO", "a\nb\x1b"), ("ERROR", "password=x"))
    assert [re.sub(r"^[\d:.]{12}Z ", "", line) for line in text.splitlines()] == [
        "INFO groupreplay.streaming.test: a\\u{a}b\\u{1b}",
        "ERROR groupreplay.streaming.test: password=********",
    ]


def test_json_lines() -> None:
    """The same as JSON, one object a line."""
    (line,) = logged("json", "WARNING", ("INFO", "no"), ("WARNING", "a\nb")).splitlines()
    parsed = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", parsed.pop("time"))
    assert parsed == {"level": "WARNING", "logger": "groupreplay.streaming.test", "message": "a\\u{a}b"}


def test_librdkafka_is_heard_at_debug_only() -> None:
    """Its line for every failed attempt does not flood stderr unless all is asked for."""
    quiet = logging.getLogger("groupreplay.librdkafka")
    for level, heard in (("INFO", False), ("DEBUG", True)):
        stream = io.StringIO()
        configure_logs(level, "text", stream)
        quiet.error("FAIL")
        assert ("FAIL" in stream.getvalue()) is heard
    configure_logs()


def test_progress_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that stderr goes to may be on the disk that is full: the job waits for space, and does not end."""

    class FullDisk(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", FullDisk())
    report_progress("5 groups")


@pytest.mark.parametrize("level", ["ERROR", "DEBUG"])
def test_progress_beside_the_log(capsys: pytest.CaptureFixture[str], level: str) -> None:
    """A line of progress is said at every level: as text, or as one more object of a JSON log."""
    report_progress("5 groups")
    assert capsys.readouterr().err == "groupreplay: 5 groups\n"
    stream = io.StringIO()
    configure_logs(level, "json", stream)
    try:
        report_progress("5 groups")
        logging.getLogger("groupreplay.streaming.test").error("bad")
    finally:
        configure_logs()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["level"], one["logger"], one["message"]) for one in lines] == [
        ("INFO", "groupreplay.progress", "5 groups"),
        ("ERROR", "groupreplay.streaming.test", "bad"),
    ]
    assert {frozenset(one) for one in lines} == {frozenset({"time", "level", "logger", "message"})}
    assert capsys.readouterr().err == ""
