"""Log lines: one a record, no secrets, no control characters."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from groupreplay.streaming.config.logs import StatusReport, configure_logs, report_progress, without_secrets
from streaming.base.test_status_line import Terminal

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
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("INFO", "groupreplay.progress", "5 groups"),
        ("ERROR", "groupreplay.streaming.test", "bad"),
    ]
    assert {frozenset(line) for line in lines} == {frozenset({"time", "level", "logger", "message"})}
    assert capsys.readouterr().err == ""


def test_status_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    """A line at once, then one a minute, and one on each change; none that only repeats."""
    now = [0.0]
    status = StatusReport(lambda: now[0])
    for second, kind in ((0, "a"), (10, "a"), (59, "a"), (60, "a"), (70, "b"), (80, "b"), (131, "b")):
        now[0] = second
        status(kind, f"{kind} at {second}")
    status.close()
    lines = ["a at 0", "a at 60", "b at 70", "b at 131"]
    assert capsys.readouterr().err.splitlines() == [f"groupreplay: {line}" for line in lines]


def test_status_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that is renewed; lines of the log and of progress stand above it, and at the end it is gone."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    configure_logs("WARNING", "text", stream)
    status = StatusReport()
    try:
        status("a", "one")
        status("a", "two")
        report_progress("a change")
        logging.getLogger("groupreplay.streaming.test").warning("bad")
        status("a", "three")
        status.close()
        report_progress("the end")
    finally:
        configure_logs()
    erase = "\r\x1b[K"
    drawn = [part.rstrip("\r") for part in stream.getvalue().split(erase)]
    assert drawn[:3] == ["", "groupreplay: one", "groupreplay: two"]
    shown = [part for part in drawn if part]
    assert shown[:3] == ["groupreplay: one", "groupreplay: two", "groupreplay: a change\n"]
    assert shown[4].endswith("WARNING groupreplay.streaming.test: bad\n")
    assert shown[5:] == ["groupreplay: two", "groupreplay: three", "groupreplay: the end\n"]
