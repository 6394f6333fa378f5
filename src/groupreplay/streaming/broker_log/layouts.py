"""Layouts of log files: a conversion pattern of Log4j becomes a regular expression with the time and the message.

Conversion words: https://logging.apache.org/log4j/2.x/manual/pattern-layout.html. All lines of a file have one layout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

#: Where a layout comes from -> its pattern; tried in this order.
LAYOUTS: Final[Mapping[str, str]] = {
    "config/log4j.properties of Kafka to 3.9, config/log4j2.yaml since 4.0, Confluent's images": "[%d] %p %m (%c)%n",
    "Strimzi's images": "%d{ISO8601} %p %m (%c) [%t]%n",
    "Strimzi's images with log4j2": "%d{yyyy-MM-dd HH:mm:ss} %-5p %c{1}:%L - %m%n",
    "the same with threads": "%d{yyyy-MM-dd HH:mm:ss} %-5p [%t] %c{1}:%L - %m%n",
    "SLF4J's simple logger with times": "%d [%t] %p %c - %m%n",
}
_WORD: Final = re.compile(r"%-?\d*(?:\.-?\d+)?([A-Za-z]+)((?:\{[^}]*\})*)")
_TIME: Final = r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
_NAMED_TIMES: Final = frozenset({"", "ISO8601", "DEFAULT", "ISO8601_OFFSET_DATE_TIME_HHMM", "ISO8601_PERIOD"})
#: Letters of SimpleDateFormat, by the begin of a run; seconds have a fraction in one of its spellings.
_LETTERS: Final[Mapping[str, str]] = {
    "yyyy": r"\d{4}",
    "MM": r"\d\d",
    "dd": r"\d\d",
    "HH": r"\d\d",
    "mm": r"\d\d",
    "ss": r"\d\d",
    "SSS": r"\d{3}",
    "SSSSSS": r"\d{6}",
    "XXX": r"(?:Z|[+-]\d\d:\d\d)",
    "Z": r"[+-]\d{4}",
}
_PARTS: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")
_TEXTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("m", "msg", "message"), r"(?P<message>.*)"),
    **dict.fromkeys(("c", "logger", "C", "class"), r"\S*"),
    **dict.fromkeys(("p", "level"), r"\s*(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s*"),
    **dict.fromkeys(("L", "line"), r"(?:\d+|\?)?"),
    "n": "",
}


class PatternError(ValueError):
    """A conversion pattern that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Lines of one conversion pattern; what a container runtime puts in front of them does not matter."""

    pattern: str
    line: re.Pattern[str]

    def message(self, line: str) -> tuple[int, str] | None:
        """(time in ms since 1970, message); None: the line has another layout, as those of a stack trace.

        A time without a zone counts as UTC: only times of one broker are compared.
        """
        match = self.line.search(line)
        at_ms = None if match is None else _milliseconds(match)
        return None if match is None or at_ms is None else (at_ms, match["message"])


def layout(pattern: str) -> Layout:
    """The layout of a conversion pattern.

    Raises:
        PatternError: it has no message, or no time with a date, or a word that is not known.
    """
    regex, end = "", 0
    for word in _WORD.finditer(pattern):
        regex += re.escape(pattern[end : word.start()]) + _regex_of(word[1], word[2])
        end = word.end()
    regex += re.escape(pattern[end:])
    if "(?P<message>" not in regex or "(?P<time>" not in regex:
        raise PatternError("it needs %d with a date, and %m")
    try:
        return Layout(pattern, re.compile(rf"{regex}\s*$"))
    except re.error:
        raise PatternError("it has %d or %m more than once") from None


def _regex_of(word: str, options: str) -> str:
    if word in ("d", "date"):
        return _date(options[1:].split("}", maxsplit=1)[0])
    if word in _TEXTS:
        return _TEXTS[word]
    # A thread, a host, a value of the context: anything that the next literal ends.
    return r".*?"


def _date(form: str) -> str:
    if form in _NAMED_TIMES or form.startswith("yyyy-MM-dd"):
        return _TIME
    regex = ""
    for part in _PARTS.finditer(form):
        text = part[0]
        if part[2] is None:
            regex += re.escape(text.strip("'"))
        elif text in _LETTERS:
            regex += f"(?P<{text}>{_LETTERS[text]})"
        else:
            raise PatternError(f"in %d{{{form}}} the letters {text} are not known")
    if any(f"(?P<{letters}>" not in regex for letters in ("yyyy", "MM", "dd", "HH", "mm", "ss")):
        raise PatternError("%d needs year, month, day, hour, minute and second, such as yyyy-MM-dd HH:mm:ss")
    return f"(?P<time>{regex})"


def _milliseconds(match: re.Match[str]) -> int | None:
    parts = match.groupdict()
    text = match["time"]
    if parts.get("yyyy"):
        fraction = parts.get("SSS") or parts.get("SSSSSS") or "0"
        zone = parts.get("XXX") or parts.get("Z") or ""
        date = "-".join(parts[name] for name in ("yyyy", "MM", "dd"))
        text = f"{date}T{parts['HH']}:{parts['mm']}:{parts['ss']}.{fraction}{zone}"
    try:
        moment = datetime.fromisoformat(_iso(text))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1_000)


_FRACTION: Final = re.compile(r"[.,](\d+)")


def _iso(text: str) -> str:
    """The form that Python 3.10 reads: six digits of a second, and a zone with a colon."""
    text = _FRACTION.sub(lambda fraction: f".{fraction[1][:6]:0<6}", text.replace("Z", "+00:00"), count=1)
    return re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text) if text[-5] in "+-" else text
