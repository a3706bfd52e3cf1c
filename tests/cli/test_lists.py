"""`coopbandits policies` and its kin: everything that can be named, one line each."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from coopbandits.cli import LISTED
from coopbandits.cli.lists import REGISTRIES, registry_of
from coopbandits.core.registry import EXAMPLES, parse_index, parse_policy

from .calls import Call

MODULE = '''
from dataclasses import dataclass
import coopbandits as cb

@dataclass(frozen=True)
class Mine(cb.DDUCB):
    """A policy of my own.

    More about it."""
    name = "mine"
    step: int = 0

def clustered(size, chance=0.5):
    """Return groups of agents."""
'''

ENTRY_POINTS = """
[coopbandits.policies]
mine = listed_things:Mine
gone = listed_things:Gone
[coopbandits.graphs]
clustered = listed_things:clustered
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that offers things, one of which is not there."""
    info = tmp_path / "listed_things-1.dist-info"
    info.mkdir()
    (tmp_path / "listed_things.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: listed-things\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "listed_things", raising=False)


def test_every_list_has_a_registry() -> None:
    assert tuple(REGISTRIES) == LISTED


@pytest.mark.parametrize("kind", LISTED)
def test_every_name_has_one_line_that_says_what_it_is(call: Call, kind: str) -> None:
    outcome = call(kind)
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert len(lines) == len(registry_of(kind).names())
    for line, name in zip(lines, registry_of(kind).names(), strict=True):
        form, _, sentence = line.partition("  ")
        assert form.startswith(name)
        assert len(sentence.split()) > 1, f"{name} says nothing about itself"


def test_what_must_be_given_is_shown(call: Call) -> None:
    listed = {line.split()[0] for line in call("policies").out.splitlines()}
    assert listed >= set(EXAMPLES)  # other tests may have registered more
    assert "\nbernoulli:means=…  " in call("problems").out
    assert "\ncrash=SHARE@START[..STOP][:STATE]  " in call("faults").out
    assert "\nsmall-world:N,DEGREE,PROBABILITY[,seed=S]  " in call("graphs").out


@pytest.mark.parametrize("kind", ["policies", "indices"])
def test_constants_are_shown_wherever_there_are_some(call: Call, kind: str) -> None:
    shown = {
        line.split()[0]: re.findall(r" B=(\S+) ", line) for line in call(kind).out.splitlines()
    }
    parse = {"policies": parse_policy, "indices": parse_index}[kind]
    for form, constants in shown.items():
        if "…" not in form:
            constant = parse(form).bonus_constant
            assert constants == ([] if constant is None else [f"{constant:g}"])
    assert ["2"] in shown.values()


@pytest.mark.usefixtures("package")
def test_things_of_installed_packages_are_listed(call: Call) -> None:
    lines = call("policies").out.splitlines()
    assert [line.split(maxsplit=2) for line in lines if line.startswith("mine")] == [
        ["mine", "B=4", "A policy of my own."]
    ]
    assert call("graphs").out.splitlines()[-1].split(maxsplit=1) == [
        "clustered:SIZE",
        "Groups of agents.",
    ]


@pytest.mark.usefixtures("package")
def test_a_package_that_cannot_be_loaded_says_why_and_hides_nothing(call: Call) -> None:
    outcome = call("policies")
    assert outcome.status == 0
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("gone"))
    assert "policy 'gone' of package listed-things" in line
    assert "\ndec-ts  " in outcome.out
