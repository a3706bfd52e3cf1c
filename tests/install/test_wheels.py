"""What is in the distributions: all that is needed, nothing else, and each file in one of them."""

from __future__ import annotations

import tarfile
import tomllib
from email.parser import Parser
from itertools import combinations
from pathlib import Path

import pytest

import coopbandits

from . import wheels

VERSION = coopbandits.__version__
SCRIPT = "[console_scripts]\ncoopbandits = coopbandits.__main__:main\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    wheels.build(out)
    return out


def required(wheel: Path, extra: str = "") -> set[str]:
    """Return what a distribution requires, or what one of its extras adds."""
    lines = Parser().parsestr(wheels.told_by(wheel, "METADATA")).get_all("Requires-Dist") or []
    marker = f"; extra == '{extra}'"
    if extra:
        return {line.removesuffix(marker) for line in lines if line.endswith(marker)}
    return {line for line in lines if "extra ==" not in line}


def test_the_base_holds_the_package_and_nothing_else(folder: Path) -> None:
    source = wheels.ROOT / "src"
    files = [path for path in source.rglob("*") if path.is_file()]
    kept = [path for path in files if path.parent.name != "__pycache__"]
    whole = {path.relative_to(source).as_posix() for path in kept}
    found = wheels.names_in(wheels.wheel_of(folder, "coopbandits-base"))
    assert found == whole
    assert {"coopbandits/py.typed", "coopbandits/page/static/index.html"} < whole


def test_no_file_has_two_owners(folder: Path) -> None:
    files = {name: wheels.names_in(wheels.wheel_of(folder, name)) for name in wheels.FOLDERS}
    for one, other in combinations(files, 2):
        assert not files[one] & files[other]


@pytest.mark.parametrize(
    ("name", "extra", "script"),
    [
        ("coopbandits", "[simulation]", SCRIPT),
        ("coopbandits-agent", "[fleet]", SCRIPT),
        ("coopbandits-client", "", ""),
    ],
)
def test_what_users_name_requires_the_base_of_its_version(
    folder: Path, name: str, extra: str, script: str
) -> None:
    wheel = wheels.wheel_of(folder, name)
    assert f"\nVersion: {VERSION}\n" in wheels.told_by(wheel, "METADATA")
    assert required(wheel) == {f"coopbandits-base{extra}=={VERSION}"}
    assert wheels.told_by(wheel, "entry_points.txt") == script


def test_all_extras_for_users_can_be_asked_for(folder: Path) -> None:
    project = tomllib.loads((wheels.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].keys() - {"simulation", "docs", "dev"}
    assert extras >= {"fleet", "parquet", "polars", "cluster"}
    complete = wheels.wheel_of(folder, "coopbandits")
    for extra in extras:
        assert required(complete, extra) == {f"coopbandits-base[{extra}]=={VERSION}"}


def test_the_client_needs_one_small_library(folder: Path) -> None:
    (need,) = required(wheels.wheel_of(folder, "coopbandits-base"))
    assert need.startswith("httptools")


def test_the_source_distribution_has_what_tests_need_and_no_remains(folder: Path) -> None:
    with tarfile.open(wheels.sdist_in(folder)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "LICENSE", "pyproject.toml", "packages/agent/pyproject.toml"} <= names
    assert {"src/coopbandits/py.typed", "tests/install/test_wheels.py", "docs/index.md"} <= names
    assert {"tests/torture/__main__.py", "benchmarks/__main__.py"} <= names
    remains = ("__pycache__", "_build/", ".venv", ".egg-info", ".nbi", ".nbc")
    assert [name for name in names if any(part in name for part in remains)] == []
