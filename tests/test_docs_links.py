"""Links, files, targets, policies and decisions that pages name are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import coopbandits as cb
from coopbandits.core import POLICIES, parse_policy

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    + [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {page: set(re.findall(r"`make ([\w-]+)", page.read_text())) for page in PAGES}
    wrong = {name_of(page): found - targets for page, found in named.items() if found - targets}
    assert not wrong


@cache
def anchors(page: Path) -> set[str]:
    """Return what a link into a page may name: its headings and labels, as GitHub and MyST do."""
    text = FENCED.sub("", page.read_text())
    found = set(re.findall(r"^\((.+)\)=$", text, re.MULTILINE))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower())
        found.add(plain.replace(" ", "-"))
    return found


def leads_somewhere(page: Path, link: str) -> bool:
    target, _, anchor = link.partition("#")
    to = (page.parent / target).resolve() if target else page
    return to.is_file() and (not anchor or anchor in anchors(to))


def test_links_and_pictures_lead_somewhere() -> None:
    wrong = []
    for page in PAGES:
        text = page.read_text()
        links = re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", text))
        links += re.findall(r"^```\{image\} (\S+)", text, re.MULTILINE)
        own = [link for link in links if not re.match(r"\w+://", link)]
        wrong += [
            f"{name_of(page)} links to {link}" for link in own if not leads_somewhere(page, link)
        ]
    assert not wrong, "\n".join(wrong)


def test_files_named_in_the_text_exist() -> None:
    """A path in backticks with a folder of this repository in it is a promise."""
    homes = [ROOT, ROOT / "src", ROOT / "src" / "coopbandits"]
    path = re.compile(r"`(\w[\w/.-]*/[\w.@-]+\.(?:py|md|toml|ipynb|service))`")
    wrong = [
        f"{name_of(page)} names {named}"
        for page in PAGES
        for named in path.findall(page.read_text())
        if not any((home / named).is_file() for home in homes)
    ]
    assert not wrong, "\n".join(wrong)


def toctree(page: Path) -> list[str]:
    """Return what the toctrees of a page list."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]


def test_every_page_is_in_one_place_of_the_site() -> None:
    listed = [
        (page.parent / entry).resolve().relative_to(DOCS)
        for page in PAGES
        if page.is_relative_to(DOCS)
        for entry in toctree(page)
    ]
    pages = {page.relative_to(DOCS).with_suffix("") for page in DOCS.rglob("*.md")}
    own = {page for page in pages if page.parts[0] not in ("_static", "_build")} - {Path("index")}
    assert sorted(listed) == sorted(own)


def test_the_groups_are_those_of_a_reader() -> None:
    captions = re.findall(r"^:caption: (.+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert captions == ["Tutorials", "How-to guides", "Explanation", "Reference"]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_page_that_spells_it_in_python_and_on_the_command_line(
    name: str,
) -> None:
    text = (DOCS / "policies" / f"{name}.md").read_text()
    assert "## Differs from the paper" in text
    ((python, spelling, rest),) = re.findall(
        r"^`(cb\.\w+\(.*?\))` · on the command line `([^`]+)`(.*)$", text, re.MULTILINE
    )
    policy = eval(python, {"cb": cb})  # noqa: S307  own pages
    assert policy == parse_policy(spelling)
    assert policy.spelling == spelling
    assert {parse_policy(other).name for other in [spelling, *re.findall(r"`([^`]+)`", rest)]} == {
        name
    }


def test_the_table_lists_every_policy() -> None:
    page = DOCS / "policies" / "index.md"
    assert toctree(page) == list(POLICIES)
    rows = [line for line in page.read_text().splitlines() if line.startswith("| [`")]
    listed = re.findall(r"\[`([\w-]+)`\]\(([\w-]+)\.md\)", "\n".join(rows))
    assert listed == [(name, name) for name in POLICIES]


def test_every_decision_is_listed() -> None:
    folder = DOCS / "decisions"
    assert toctree(folder / "index.md") == sorted(page.stem for page in folder.glob("0*.md"))
