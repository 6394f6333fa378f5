"""Checks of the source tree: each takes the root of a checkout and returns one line for each offence."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: The rooms of ``src/groupreplay`` -> packages from outside the standard library that they may import, if bounded.
ROOMS: dict[str, frozenset[str] | None] = {
    "codecs": frozenset(),
    "state": frozenset({"msgspec", "numpy"}),
    "coordinator": frozenset({"msgspec", "numpy"}),
    "timeline": frozenset({"msgspec", "numpy"}),
    "streaming": None,
    "app": None,
}
PURE = [room for room, packages in ROOMS.items() if packages is not None]
EVERYTHING = (*ROOMS, "benchmarks", "docs", "release", "tests")
MOST_MODULE_LINES = 400
MOST_FUNCTION_LINES = 40
#: Packages that importing a pure room must not load, not even through another package.
HEAVY = ("pyspark", "pandas", "pyarrow", "confluent_kafka", "click")
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

_PATH = re.compile(
    rf"(?<![\w/.*-])((?:{'|'.join(EVERYTHING)}|deploy)/[\w/.-]*\.(?:py|md|json|toml|yml|xml|xz))\b"
)


@dataclass(frozen=True)
class Module:
    """A file of Python source; the path is relative to ``src/groupreplay`` in rooms, to the root elsewhere."""

    path: str
    text: str

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree."""
        return _nodes(self.text)


def place(root: Path, path: str) -> Path:
    """Where a path of a module or a page is in a checkout."""
    return root / "src" / "groupreplay" / path if path.partition("/")[0] in ROOMS else root / path


def modules(root: Path, *folders: str) -> list[Module]:
    """Every Python file below these folders, at any depth."""
    return [
        Module(f"{folder}/{path.relative_to(place(root, folder)).as_posix()}", path.read_text("utf-8"))
        for folder in folders
        for path in sorted(place(root, folder).rglob("*.py"))
    ]


def imported_packages(root: Path) -> list[str]:
    """Imports in pure rooms, inside functions too, of packages that the room may not import."""
    return [
        f"{module.path} imports {name}"
        for room, packages in ROOMS.items()
        if packages is not None
        for module in modules(root, room)
        for name in sorted({origin.partition(".")[0] for _, origin in _imported_names(module.nodes)})
        if name not in {"groupreplay", *packages, *sys.stdlib_module_names}
    ]


def loaded_packages(root: Path) -> list[str]:
    """Heavy packages that are loaded after every module of a pure room was imported."""
    script = (
        "import importlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]: importlib.import_module(name)\n"
        f"print(*(name for name in {HEAVY} if name in sys.modules))"
    )
    loaded = []
    for room in PURE:
        names = [_dotted(module.path) for module in modules(root, room)]
        command = [sys.executable, "-I", "-c", script, str(root / "src"), *names]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        loaded += [f"{room} loads {name}" for name in done.stdout.split()]
    return loaded


def clocks_read(root: Path) -> list[str]:
    """Uses of a clock in pure rooms, under any name it was imported by."""
    uses = []
    for module in modules(root, *PURE):
        origins = dict(_imported_names(module.nodes))
        used = {_origin(node, origins) for node in module.nodes}
        clocks = [name for name in used if name in CLOCKS or name.startswith("time.")]
        uses += [f"{module.path} reads {name}" for name in sorted(clocks)]
    return uses


def bare_decodings(root: Path) -> list[str]:
    """Decoders in `streaming` and `app` outside of ``contract.messages``, also ``bytes.decode`` where it may fail."""
    found = set()
    for module in modules(root, "streaming", "app"):
        origins = dict(_imported_names(module.nodes))
        for node in module.nodes:
            name = _origin(node, origins)
            if name in DECODERS:
                found.add(f"{module.path} {name}")
            # Without an argument it is that of bytes, and raises if they are no UTF-8.
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "decode"
                and not (node.args or node.keywords)
            ):
                found.add(f"{module.path} bytes.decode")
    return sorted(one for one in found if not one.startswith("streaming/contract/messages.py "))


def long_modules(root: Path) -> list[str]:
    """Modules with too many lines."""
    return [
        module.path
        for module in modules(root, *EVERYTHING)
        if len(module.text.splitlines()) > MOST_MODULE_LINES
    ]


def long_functions(root: Path) -> list[str]:
    """Functions with too many lines; those of test files may be longer, because they compare whole values."""
    return [
        f"{module.path} {node.name}"
        for module in modules(root, *EVERYTHING)
        if not Path(module.path).name.startswith("test_")
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_FUNCTION_LINES
    ]


def endless_waits(root: Path) -> list[str]:
    """Loops of tests and benchmarks that only ask again until the answer changes: ``wait_until`` has a deadline."""
    return [
        f"{module.path} {node.lineno}"
        for module in modules(root, "tests", "benchmarks")
        if "while " in module.text
        for node in module.nodes
        if isinstance(node, ast.While)
        and all(isinstance(line, ast.Pass | ast.Expr) for line in node.body)
        and any(isinstance(part, ast.Call) for part in ast.walk(node.test))
        # What was asked and named, the loop uses; the others have a deadline, or are ended by an event.
        and not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test))
        and not re.search(r"\b(monotonic|wait)\(", ast.unparse(node.test))
    ]


def stale_paths(root: Path) -> list[str]:
    """Paths of files in the text of sources and pages that do not exist; ``tests/project`` plants such paths."""
    pages = [path for folder in ("", "benchmarks", "docs") for path in (root / folder).glob("*.md")]
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(pages)}
    texts |= {module.path: module.text for module in modules(root, *EVERYTHING)}
    return [
        f"{source} names {path}"
        for source, text in texts.items()
        if not source.startswith("tests/project/")
        for path in sorted(set(_PATH.findall(text)))
        if not place(root, path).exists()
    ]


@cache
def _nodes(text: str) -> tuple[ast.AST, ...]:
    try:
        tree = ast.parse(text)
    except SystemError:
        # CPython 3.11 counts the depth of its parser wrongly when another thread parses at the same time (gh-106905).
        tree = ast.parse(text)
    return tuple(ast.walk(tree))


def _dotted(path: str) -> str:
    return "groupreplay." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """(name in the module, what it stands for) of each import, inside functions too."""
    for node in nodes:
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
