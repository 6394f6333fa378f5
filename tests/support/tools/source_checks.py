"""Checks of the source tree: each takes the root of a checkout and returns one line for each offence."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOMS = ("codecs", "state", "streaming")
EVERYTHING = (*ROOMS, "benchmarks", "docs", "release", "tests")
MOST_MODULES = 15
MOST_MODULE_LINES = 400
MOST_FUNCTION_LINES = 40
#: Packages from outside the standard library that a room may import.
PACKAGES = {"codecs": frozenset[str](), "state": frozenset({"msgspec", "numpy"})}
#: Packages that importing `codecs` or `state` must not load, not even through another package.
HEAVY = ("pyspark", "pandas", "pyarrow", "confluent_kafka", "rich", "click")
#: Functions outside the module ``time`` that read a clock.
CLOCKS = {
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "os.times",
    "uuid.uuid1",
}
#: What raises an exception on bytes that anybody may have written.
DECODERS = {
    *("json.load", "json.loads", "msgspec.convert", "msgspec.json.Decoder", "msgspec.json.decode"),
    *("msgspec.msgpack.Decoder", "msgspec.msgpack.decode", "msgspec.toml.decode"),
}
#: Names that were replaced: what a reader of Kafka's documentation would not understand.
OLD_NAMES = frozenset(
    {
        *("Alarms", "Audience", "Books", "Firing", "Habits", "Leashed", "Outlook", "Raised", "Said", "Saved"),
        *("View", "look", "said", "told"),
    }
)

_PATH = re.compile(
    rf"(?<![\w/.*-])((?:{'|'.join(EVERYTHING)}|deploy)/[\w/.-]*\.(?:py|md|json|toml|yml|xml|xz))\b"
)


@dataclass(frozen=True)
class Module:
    """A file of Python source; the path is relative to the root."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return _parsed(self.text)


def modules(root: Path, *folders: str) -> list[Module]:
    """Every Python file below these folders, at any depth."""
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    return [Module(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in paths]


def imported_packages(root: Path) -> list[str]:
    """Imports in `codecs` and `state`, inside functions too, of packages that the room may not import."""
    return [
        f"{module.path} imports {name}"
        for room, packages in PACKAGES.items()
        for module in modules(root, room)
        for name in sorted({origin.partition(".")[0] for _, origin in _imported_names(module.tree)})
        if name not in {"groupreplay", *packages, *sys.stdlib_module_names}
    ]


def loaded_packages(root: Path) -> list[str]:
    """Heavy packages that are loaded after every module of `codecs` and `state` was imported."""
    names = {room: [_dotted(module.path) for module in modules(root, room)] for room in ("codecs", "state")}
    script = (
        "import importlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]: importlib.import_module(name)\n"
        f"print(*(name for name in {HEAVY} if name in sys.modules))"
    )
    found = []
    for room, imported in names.items():
        command = [sys.executable, "-I", "-c", script, str(root / "src"), *imported]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        found += [f"{room} loads {name}" for name in done.stdout.split()]
    return found


def clocks_read(root: Path) -> list[str]:
    """Uses of a clock in `codecs` and `state`, under any name it was imported by."""
    found = []
    for module in modules(root, "codecs", "state"):
        origins = dict(_imported_names(module.tree))
        used = {_origin(node, origins) for node in ast.walk(module.tree)}
        clocks = [name for name in used if name in CLOCKS or name.startswith("time.")]
        found += [f"{module.path} reads {name}" for name in sorted(clocks)]
    return found


def bare_decodings(root: Path) -> list[str]:
    """Uses of a decoder in `streaming`, and of ``bytes.decode`` that may fail, outside of ``message_decoder``."""
    found = set()
    for module in modules(root, "streaming"):
        origins = dict(_imported_names(module.tree))
        for node in ast.walk(module.tree):
            name = _origin(node, origins)
            if name in DECODERS:
                found.add(f"{module.path} {name}")
            # Without an argument it is that of bytes, and raises if they are no UTF-8.
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr == "decode" and not node.args and not node.keywords:
                found.add(f"{module.path} bytes.decode")
    return sorted(one for one in found if not one.startswith("streaming/contract/message_decoder.py "))


def modules_without_docstring(root: Path) -> list[str]:
    """Modules that do not begin with a docstring."""
    return [module.path for module in modules(root, *EVERYTHING) if not module.text.startswith('"""')]


def modules_without_test(root: Path) -> list[str]:
    """Modules of the rooms without a test file at the same place below ``tests``."""
    return [
        module.path
        for module in modules(root, *ROOMS)
        if not Path(module.path).name.startswith("__")
        and not (root / "tests" / Path(module.path).with_name(f"test_{Path(module.path).name}")).is_file()
    ]


def tests_without_module(root: Path) -> list[str]:
    """Test files below ``tests/codecs``, ``tests/state`` and ``tests/streaming`` without their module."""
    return [
        test.path
        for test in modules(root, *(f"tests/{room}" for room in ROOMS))
        if not test.path.endswith("/conftest.py")
        and not (root / test.path.removeprefix("tests/").replace("/test_", "/")).is_file()
    ]


def crowded_packages(root: Path) -> list[str]:
    """Packages with more modules than a reader can survey, ``__init__.py`` not counted."""
    count: defaultdict[str, int] = defaultdict(int)
    for module in modules(root, *EVERYTHING):
        folder, _, name = module.path.rpartition("/")
        count[folder] += name != "__init__.py"
    return [folder for folder, number in count.items() if number > MOST_MODULES]


def long_modules(root: Path) -> list[str]:
    """Modules with too many lines."""
    found = modules(root, *EVERYTHING)
    return [module.path for module in found if len(module.text.splitlines()) > MOST_MODULE_LINES]


def long_functions(root: Path) -> list[str]:
    """Functions with too many lines; those of test files may be longer, because they compare whole values."""
    return [
        f"{module.path} {node.name}"
        for module in modules(root, *EVERYTHING)
        if not Path(module.path).name.startswith("test_")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_FUNCTION_LINES
    ]


def endless_waits(root: Path) -> list[str]:
    """Loops of tests and benchmarks that only ask again until the answer changes: ``wait_until`` has a deadline."""
    return [
        f"{module.path} {node.lineno}"
        for module in modules(root, "tests", "benchmarks")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.While)
        and all(isinstance(line, ast.Pass | ast.Expr) for line in node.body)
        and any(isinstance(part, ast.Call) for part in ast.walk(node.test))
        # What was asked and named, the loop uses; the others have a deadline, or are ended by an event.
        and not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
        and not re.search(r"\b(monotonic|wait)\(", ast.unparse(node.test))
    ]


def repeated_class_names(root: Path) -> list[str]:
    """Names of classes that occur more than once in the rooms."""
    places = defaultdict(list)
    for module in modules(root, *ROOMS):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.path)
    return [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def old_names(root: Path) -> list[str]:
    """Classes, functions and methods in the rooms that have a name that was replaced."""
    return [
        f"{module.path} {node.name}"
        for module in modules(root, *ROOMS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.strip("_") in OLD_NAMES
    ]


def stale_paths(root: Path) -> list[str]:
    """Paths of files in the text of sources and pages that do not exist; ``tests/project`` plants such paths."""
    pages = [path for folder in (root, *(root / name for name in EVERYTHING)) for path in folder.glob("*.md")]
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(pages)}
    texts |= {module.path: module.text for module in modules(root, *EVERYTHING)}
    return [
        f"{place} names {path}"
        for place, text in texts.items()
        if not place.startswith("tests/project/")
        for path in sorted(set(_PATH.findall(text)))
        if not (root / path).exists()
    ]


@cache
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SystemError:
        # CPython 3.11 counts the depth of its parser wrongly when another thread parses at the same time (gh-106905).
        return ast.parse(text)


def _dotted(path: str) -> str:
    return "groupreplay." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name in the module, what it stands for) of each import, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                whole = one.asname is not None
                yield (
                    one.asname or one.name.partition(".")[0],
                    one.name if whole else one.name.partition(".")[0],
                )
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _origin(node: ast.AST, origins: dict[str, str]) -> str:
    """The full name of what a name or an attribute refers to; empty if it was not imported."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, "")
    if isinstance(node, ast.Attribute):
        outer = _origin(node.value, origins)
        return outer and f"{outer}.{node.attr}"
    return ""
