"""The page's files: what is served, with what, and that nothing else is."""

from __future__ import annotations

import json
import re

import pytest

from coopbandits.page import assets

from .refresh_vendor import VENDOR, WANTED, digest, relative_imports

STATIC = VENDOR.parent
OWN = sorted(path for path in STATIC.iterdir() if path.suffix in (".js", ".css", ".html"))


def test_the_page_is_at_no_path_at_all() -> None:
    page = assets.find("")
    assert page == assets.find("index.html")
    assert page is not None
    assert page.kind == b"text/html; charset=utf-8"
    assert page.body.startswith(b"<!doctype html>")
    assert re.fullmatch(rb'"[0-9a-f]{32}"', page.etag)


def test_files_have_their_kinds_and_different_marks() -> None:
    module, style = assets.find("main.js"), assets.find("vendor/uplot.css")
    assert module is not None
    assert style is not None
    assert module.kind == b"text/javascript; charset=utf-8"
    assert style.kind == b"text/css; charset=utf-8"
    assert module.etag != style.etag


@pytest.mark.parametrize(
    "path",
    ["../assets.py", "/etc/passwd", "vendor/../../assets.py", "vendor", "vendor/", "main.js/", "./",
     "vendor/checksums.json", "vendor/uplot.LICENSE", "main.js\0", "MAIN.JS"],
)  # fmt: skip
def test_nothing_else_is_found(path: str) -> None:
    assert assets.find(path) is None


def test_headers_allow_this_address_alone() -> None:
    policy = dict(assets.HEADERS)[b"content-security-policy"].decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in policy
    assert "http" not in policy


def test_every_import_and_link_is_served() -> None:
    for path in (*OWN, *VENDOR.glob("*.js")):
        source = path.read_text(encoding="utf-8")
        asked = re.findall(r'^import .* from [\'"](.+?)[\'"];$', source, re.MULTILINE)
        if path.suffix == ".html":
            asked = re.findall(r'(?:src|href)="([^"#]+)"', source)
        for name in asked:
            place = (path.parent / name).resolve().relative_to(STATIC).as_posix()
            assert assets.find(place), f"{path.name} asks for {name}"


def test_no_text_is_ever_parsed_as_markup() -> None:
    parsing = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\("
    )
    for path in OWN:
        assert not parsing.search(path.read_text(encoding="utf-8")), path.name


def test_own_files_are_short_enough_to_read() -> None:
    for path in OWN:
        assert len(path.read_text(encoding="utf-8").splitlines()) < 300, path.name


def test_libraries_are_what_their_checksums_say() -> None:
    listed = json.loads((VENDOR / "checksums.json").read_text(encoding="utf-8"))
    lying = {path.name for path in VENDOR.iterdir()} - {"checksums.json"}
    assert lying == set(listed) == {name for files in WANTED.values() for name in files.values()}
    for name, entry in listed.items():
        assert digest((VENDOR / name).read_bytes()) == entry["sha256"], name
        changed = entry["sha256"] != entry["original_sha256"]
        assert changed == (name == "d3-force.js"), f"{name} was edited"


def test_only_imports_are_rewritten() -> None:
    source = "import { timer } from 'd3-timer';\nlet from = 'd3-timer';\n"
    expected = "import { timer } from './d3-timer.js';\nlet from = 'd3-timer';\n"
    assert relative_imports(source) == expected
