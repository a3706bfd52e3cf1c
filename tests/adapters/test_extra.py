"""Adapters load one by one; a missing library is one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

import coopbandits.adapters as adapters


@pytest.mark.parametrize("name", adapters.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(adapters, name).__name__ == name
    assert getattr(adapters, name).__doc__


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(adapters, "Env")
    assert dir(adapters) == sorted(adapters.__all__)


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    ("statement", "library", "missing", "extra"),
    [
        ("from coopbandits.adapters import ParallelBanditEnv", "pettingzoo", "pettingzoo", "rl"),
        ("from coopbandits.adapters import ParallelBanditEnv", "gymnasium", "gymnasium", "rl"),
        ("import coopbandits.adapters.gymnasium", "gymnasium", "gymnasium", "rl"),
    ],
)
def test_without_its_library_an_environment_says_what_to_install(
    statement: str, library: str, missing: str, extra: str
) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; {statement}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert missing in last and f"pip install 'coopbandits[{extra}]'" in last


def test_policies_are_listed_without_their_libraries() -> None:
    code = (
        "import sys; sys.modules['mabwiser'] = sys.modules['river'] = None; "
        "from coopbandits.cli.lists import rows; print(*rows('policies'), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "('mabwiser:learner=…', '', 'A learner of mabwiser for every agent" in done.stdout
    assert "('river:learner=…', '', 'A bandit of river for every agent" in done.stdout
