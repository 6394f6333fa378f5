"""The lines that Kafka's classes can log, read out of their jars with ``javap``: a new release shows what is new."""

from __future__ import annotations

import re
import struct
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
_TEXT: Final = re.compile(r"\bldc(?:_w)?\s+#(\d+)\s+// String\b")
_LETTER: Final = re.compile(r"\bbipush\s+(\d+)$")
_CALL: Final = re.compile(r"\binvoke\w+\s.*// (?:Interface)?Method (\S+?):\(")
_SITE: Final = re.compile(r"\binvokedynamic\s.*// InvokeDynamic #(\d+):")
_APPEND: Final = re.compile(r"StringBuilder\.append:")
_BOOTSTRAP: Final = re.compile(r"^  (\d+): .*\n    Method arguments:\n((?:      .*\n)+)", re.MULTILINE)
_CLOSURE: Final = re.compile(r"REF_invokeStatic [\w/$]+\.(\$anonfun\$[\w$]+):")


#: Tags of the constant pool, and what an entry takes with its tag.
_UTF8, _STRING = 1, 8
_SIZES: Final = {
    3: 5,
    4: 5,
    5: 9,
    6: 9,
    7: 3,
    8: 3,
    9: 5,
    10: 5,
    11: 5,
    12: 5,
    15: 4,
    16: 3,
    17: 5,
    18: 5,
    19: 3,
    20: 3,
}
#: These take two places.
_WIDE: Final = (5, 6)


class LogLine(NamedTuple):
    """A line: the class that writes it, and its text with ``{}`` for each value."""

    of: str
    text: str


def log_lines(version: str) -> set[LogLine]:
    """Those of the group coordinators of a release, at INFO and above."""
    lines = set[LogLine]()
    for jar in jar_paths(f"broker-{version}"):
        classes = _classes(jar)
        contents = _CLASS.split(_disassembled(jar, list(classes)))[1:] if classes else ()
        for (name, bytecode), content in zip(classes.items(), contents, strict=True):
            texts = _constants(bytecode)
            found = _java(content, texts) if "org/slf4j/Logger" in content else _scala(content, texts)
            of = name.rpartition(".")[2].partition("$")[0]
            lines |= {LogLine(of, text) for text in found}
    return lines


def _classes(jar: Path) -> dict[str, bytes]:
    """The bytes of each class that may log, by name."""
    with ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.endswith(".class")]
        found = {name: archive.read(name) for name in names if name.startswith((*_PACKAGES, _SCALA))}
    return {
        name.removesuffix(".class").replace("/", "."): content
        for name, content in found.items()
        if b"org/slf4j/Logger" in content or name.startswith(_SCALA)
    }


def _disassembled(jar: Path, names: list[str]) -> str:
    javap = find_java().executable.resolve().with_name("javap")
    command = [str(javap), "-c", "-p", "-v", "-cp", str(jar), *names]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _constants(bytecode: bytes) -> Mapping[int, str]:
    """Index in the constant pool -> text (section 4.4 of the JVM's specification); ``javap`` cuts blanks at the end."""
    count, position = struct.unpack_from(">H", bytecode, 8)[0], 10
    texts, strings, index = dict[int, str](), dict[int, int](), 1
    while index < count:
        tag = bytecode[position]
        if tag == _UTF8:
            (length,) = struct.unpack_from(">H", bytecode, position + 1)
            texts[index] = bytecode[position + 3 : position + 3 + length].decode("utf-8", "replace")
            position += 3 + length
        else:
            if tag == _STRING:
                (strings[index],) = struct.unpack_from(">H", bytecode, position + 1)
            position += _SIZES[tag]
        index += 2 if tag in _WIDE else 1
    return {index: texts[place] for index, place in strings.items()}


def _java(content: str, texts: Mapping[int, str]) -> Iterator[str]:
    """The first text behind the last use of the logger, up to the call of one of its methods.

    Where the logger is an argument it has no name in the code: there it is the last text with a place for a value.
    """
    seen = list[str]()
    for line in content.splitlines():
        if _METHOD.match(line) or ":Lorg/slf4j/Logger;" in line or ":()Lorg/slf4j/Logger;" in line:
            seen, is_named = [], _METHOD.match(line) is None
        elif found := _TEXT.search(line):
            seen.append(texts[int(found[1])])
        elif (called := _CALL.search(line)) and called[1].startswith("org/slf4j/Logger."):
            if seen and called[1].rpartition(".")[2] in _LEVELS:
                yield (
                    seen[0] if is_named else next((text for text in reversed(seen) if "{}" in text), seen[-1])
                )
            seen = []


def _scala(content: str, constants: Mapping[int, str]) -> Iterator[str]:
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
        found, letter = _TEXT.search(line), _LETTER.search(line)
        before = chr(int(letter[1])) if letter else None if found is None else constants[int(found[1])]
    return (texts[name] for name in logged if name in texts)
