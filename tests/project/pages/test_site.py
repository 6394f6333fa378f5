"""The static site of the docs: it is built in strict mode, and every link in its HTML leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from site_pages import github_anchor
from support.paths import ROOT
from support.tools.source_checks import ROOMS

#: Without --quiet, with which MkDocs counts no warning.
BUILD = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]


class PageLinks(HTMLParser):
    """The links of a page, and the places in it that links may name."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {one for one in (found.get("id"), found.get("name")) if one}
        self.targets += [one for one in (found.get("href"), found.get("src")) if one is not None]


def broken_links(site: Path) -> list[str]:
    """Links to a page, file or place that the site does not have; and whatever is loaded from elsewhere."""
    pages = {page: PageLinks(page) for page in sorted(site.rglob("*.html"))}
    found = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            # The page of errors is served for any path, so its links begin at the root.
            base = site if parts.path.startswith("/") else page.parent
            path = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
            path = path / "index.html" if path.is_dir() else path
            missing = not path.exists() or (
                parts.fragment and path in pages and unquote(parts.fragment) not in pages[path].places
            )
            found += [f"{page.relative_to(site)}: {target}"] if missing else []
    return found


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Scripts, styles, fonts and pictures that a page would load from another server."""
    tags = re.compile(r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]+)\"")
    return [
        found
        for page in sorted(site.rglob("*.html"))
        for found in tags.findall(page.read_text(encoding="utf-8"))
        if "canonical" not in found
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([*BUILD, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_link_leads_somewhere(site: Path) -> None:
    """Of all pages, with the anchors, by the HTML itself; and nothing is loaded from another server."""
    assert broken_links(site) == []
    assert loaded_from_elsewhere(site) == []


def test_every_page_is_there(site: Path) -> None:
    """Each page of docs/, the README as the index, and the pages at the root; no file of the tests or the code."""
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"index", "CONTRIBUTING", "CHANGELOG"}
    assert {path.stem for path in site.glob("*.html")} >= pages
    assert "<h1" in (site / "index.html").read_text(encoding="utf-8")
    assert [name for name in (*ROOMS, "tests", "generators") if (site / name).exists()] == []
    assert (site / "deploy" / "rules.toml").read_bytes() == (ROOT / "deploy" / "rules.toml").read_bytes()


def test_a_broken_link_is_found(site: Path, tmp_path: Path) -> None:
    """A page, a place and a file that are missing; and in the sources the build itself refuses them."""
    page = tmp_path / "a.html"
    page.write_text('<a href="b.html">x</a><a href="#no">y</a><a id="yes" href="#yes">z</a><img src="c.png">')
    assert broken_links(tmp_path) == ["a.html: b.html", "a.html: #no", "a.html: c.png"]
    page.write_text('<script src="https://cdn.example.com/x.js"></script>')
    assert loaded_from_elsewhere(tmp_path) == ["https://cdn.example.com/x.js"]


@pytest.mark.parametrize("link", ["[x](no-page.md)", "[x](cli.md#no-heading)"])
def test_the_build_refuses(tmp_path: Path, link: str) -> None:
    """A page with a link to a page or a heading that does not exist ends the build."""
    (tmp_path / "docs").mkdir()
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.partition("\nhooks:")[0] + settings[settings.index("\nvalidation:") :]
    (tmp_path / "mkdocs.yml").write_text(settings)
    (tmp_path / "docs" / "index.md").write_text(f"# Title\n\n{link}\n")
    (tmp_path / "docs" / "cli.md").write_text("# Command line\n")
    done = subprocess.run([*BUILD, str(tmp_path / "site")], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Exit codes", "exit-codes"),
        ("`rebalance.stuck`", "rebalancestuck"),
        ("A checkpoint that is no local folder", "a-checkpoint-that-is-no-local-folder"),
        ("Fields of every `data`", "fields-of-every-data"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    """So one link works in both places."""
    assert github_anchor(heading, "-") == anchor
