"""Parts from a user's own file, in a fleet of real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coopbandits import InputError
from coopbandits.fleet.local.agents import prepared, write_configs
from coopbandits.fleet.local.run import play
from coopbandits.fleet.local.settings import make_settings

from .. import own_parts


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that this process and agents find on PYTHONPATH, as those of users."""
    folder = tmp_path / "own"
    folder.mkdir()
    shutil.copy(own_parts.__file__, folder / "own_parts_of_a_user.py")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(folder))
    yield "own_parts_of_a_user"
    sys.modules.pop("own_parts_of_a_user", None)


@pytest.mark.covering(1)
@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize(
    "policy",
    ["flooded-totals*{}:Optimist:width=0.5", "{}:Neighbors*ucb", "{}:Whole"],
    ids=["own index", "own aggregation", "own agents"],
)
def test_agents_learn(module: str, policy: str, number: int, tmp_path: Path) -> None:
    settings = make_settings(
        f"complete:{number}",
        "0.9,0.2",
        policy=policy.format(module),
        seconds=1.5,
        pulls_per_second=40,
    )
    outcome = play(settings, tmp_path / "fleet")
    assert outcome.holds, outcome.text
    assert f"best arm found by  {number} of {number} agents" in outcome.text


def test_who_does_not_check_claims_is_refused(module: str) -> None:
    with pytest.raises(InputError, match="Careless"):
        make_settings("complete:3", "0.9,0.2", policy=f"{module}:Careless*ucb")


def check(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Check a configuration in a folder, without PYTHONPATH of tests."""
    sources = os.pathsep.join(path for path in sys.path if path != str(config.parents[2] / "own"))
    return subprocess.run(
        [sys.executable, "-m", "coopbandits", "agent", "--check", str(config)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": sources},
        capture_output=True,
        text=True,
        check=False,
    )


def test_agents_find_modules_in_their_working_folder(module: str, tmp_path: Path) -> None:
    settings = make_settings("path:2", "0.9,0.2", policy=f"{module}:Own")
    with prepared(tmp_path / "fleet", settings) as places:
        write_configs(places, settings, {})
    found = check(places[0].config, tmp_path / "own")
    assert (found.returncode, found.stderr) == (0, "")
    assert f"{module}:Own, robust" in found.stdout


@pytest.mark.slow
def test_agents_tell_of_modules_that_are_not_in_their_working_folder(
    module: str, tmp_path: Path
) -> None:
    settings = make_settings("path:2", "0.9,0.2", policy=f"{module}:Own")
    with prepared(tmp_path / "fleet", settings) as places:
        write_configs(places, settings, {})
    missing = check(places[0].config, tmp_path)
    assert missing.returncode == 1
    (sentence,) = missing.stderr.splitlines()
    assert f"{module}:Own" in sentence
