"""The lines that Kafka's classes can log, read out of their jars with ``javap``: a new release shows what is new."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZipFile

from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.platforms import find_java

#: What brokers write unless their log4j file says otherwise.
_LEVELS: Final = ("info", "warn", "error")
#: Packages of the coordinators; the share coordinator has no groups.
_PACKAGES: Final = ("org/apache/kafka/coordinator/group/", "org/apache/kafka/coordinator/common/runtime/")
_SCALA: Final = "kafka/coordinator/group/"

_CLASS: Final = re.compile(r"^Classfile ", re.MULTILINE)
_METHOD: Final = re.compile(r"^  \S.*?([\w$<>]+)\(.*\).*;$")
_TEXT: Final = re.compile(r"\bldc(?:_w)?\s+#\d+\s+// String (.*)$")
_CALL: Final = re.compile(r"\binvoke\w+\s.*// (?:Interface)?Method (\S+?):\(")
_SITE: Final = re.compile(r"\binvokedynamic\s.*// InvokeDynamic #(\d+):")
_APPEND: Final = re.compile(r"StringBuilder\.append:")
_BOOTSTRAP: Final = re.compile(r"^  (\d+): .*\n    Method arguments:\n((?:      .*\n)+)", re.MULTILINE)
_CLOSURE: Final = re.compile(r"REF_invokeStatic [\w/$]+\.(\$anonfun\$[\w$]+):")


class LogLine(NamedTuple):
    """A line: the class that writes it, and its text with ``{}`` for each value."""

    of: str
    text: str


def log_lines(version: str) -> set[LogLine]:
    """Those of the group coordinators of a release, at INFO and above."""
    lines = set[LogLine]()
    for jar in jar_paths(f"broker-{version}"):
        names = _classes(jar)
        for content in _CLASS.split(_disassembled(jar, names))[1:] if names else ():
            of = Path(content.partition("\n")[0]).stem.partition("$")[0]
            found = _java(content) if "org/slf4j/Logger" in content else _scala(content)
            lines |= {LogLine(of, text) for text in found}
    return lines


def _classes(jar: Path) -> list[str]:
    with ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.endswith(".class")]
        java = [name for name in names if name.startswith(_PACKAGES)]
        kept = [name for name in java if b"org/slf4j/Logger" in archive.read(name)]
        kept += [name for name in names if name.startswith(_SCALA)]
    return [name.removesuffix(".class").replace("/", ".") for name in kept]


def _disassembled(jar: Path, names: list[str]) -> str:
    javap = find_java().executable.resolve().with_name("javap")
    command = [str(javap), "-c", "-p", "-v", "-cp", str(jar), *names]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _java(content: str) -> Iterator[str]:
    """The first text behind each use of the logger, up to the call of one of its methods."""
    text: str | None = None
    is_open = False
    for line in content.splitlines():
        if _METHOD.match(line):
            is_open = False
        elif ":Lorg/slf4j/Logger;" in line or ":()Lorg/slf4j/Logger;" in line:
            is_open, text = True, None
        elif is_open and text is None and (found := _TEXT.search(line)):
            text = _unescaped(found[1])
        elif is_open and (called := _CALL.search(line)) and called[1].startswith("org/slf4j/Logger."):
            if text is not None and called[1].rpartition(".")[2] in _LEVELS:
                yield text
            is_open = False


def _scala(content: str) -> Iterator[str]:
    """The texts of the closures that are given to methods with the name of a level."""
    closures = {
        number: found[1]
        for number, arguments in _BOOTSTRAP.findall(content)
        if (found := _CLOSURE.search(arguments))
    }
    texts, logged = dict[str, str](), set[str]()
    method, site, before = "", "", None
    for line in content.splitlines():
        if named := _METHOD.match(line):
            method, site, before = named[1], "", None
        elif found := _SITE.search(line):
            site = closures.get(found[1], "")
        elif (called := _CALL.search(line)) and called[1].rpartition(".")[2] in _LEVELS:
            logged.add(site)
        elif _APPEND.search(line):
            texts[method] = texts.get(method, "") + ("{}" if before is None else before)
        elif before is not None and "areturn" in line:
            texts.setdefault(method, before)
        found = _TEXT.search(line)
        before = None if found is None else _unescaped(found[1])
    return (texts[name] for name in logged if name in texts)


def _unescaped(text: str) -> str:
    return text.replace("\\'", "'").replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
