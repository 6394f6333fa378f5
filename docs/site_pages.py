"""Hooks of MkDocs: pages and files from outside of docs/ join the site, and their links lead to where they are there.

The pages are written for GitHub, where a link leads from ``docs/cli.md`` to ``../deploy/rules.toml``, and from the
README to ``docs/cli.md``. On the site docs/ is the root: the README is its index, and files outside of docs/ that a
page links to are copied.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parent.parent
#: Pages at the root of the project -> their names on the site.
PAGES: Final = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
_LINK: Final = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def github_anchor(heading: str, separator: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", separator)


def on_config(config: Any) -> Any:
    """Gives headings the anchors of GitHub, on which the links of the pages rely."""
    config["mdx_configs"]["toc"]["slugify"] = github_anchor
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages at the root, and every file outside of docs/ that a page links to."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    texts = [(ROOT / "docs", path.read_text("utf-8")) for path in sorted((ROOT / "docs").glob("*.md"))]
    texts += [(ROOT, (ROOT / name).read_text("utf-8")) for name in PAGES]
    linked = {(folder / link).resolve() for folder, text in texts for link in _LINK.findall(text)}
    for path in sorted(linked):
        outside = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs")
        if outside and path.is_file() and path.name not in PAGES:
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
        elif outside and path.is_dir():
            listing = File.generated(
                config, f"{path.relative_to(ROOT).as_posix()}/index.md", content=_listing(path)
            )
            files.append(listing)
            for one in _shown(path):
                name = one.relative_to(ROOT).as_posix()
                if one.is_file() and files.get_file_from_path(name) is None:
                    files.append(File.generated(config, name, abs_src_path=str(one)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns the links of a page into those of the site."""
    by_name = {name: source for source, name in PAGES.items()}
    source = by_name.get(page.file.src_uri)
    if source is None and page.file.generated_by is not None:
        return markdown
    folder = ROOT if source else (ROOT / "docs" / page.file.src_uri).parent
    return _outside_of_code(markdown, lambda text: _LINK.sub(lambda link: _on_site(folder, link[1]), text))


def _on_site(folder: Path, link: str) -> str:
    path = (folder / link).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        return link
    name = path.relative_to(ROOT).as_posix()
    if name in PAGES:
        return PAGES[name]
    # Pages of the site are all at its root.
    return name.removeprefix("docs/") + ("/index.md" if path.is_dir() else "")


def _outside_of_code(text: str, change: Any) -> str:
    parts, end = [], 0
    for block in _FENCED.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def _shown(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_file() and one.suffix != ".pyc")


def _listing(folder: Path) -> str:
    lines = [f"- [{one.name}]({one.name})" for one in _shown(folder)]
    lines += [
        f"- {one.name}/" for one in sorted(folder.iterdir()) if one.is_dir() and one.name != "__pycache__"
    ]
    return "\n".join([f"# {folder.relative_to(ROOT).as_posix()}/", "", *lines, ""])
