"""Pages that start a fleet on one machine, as they are typed."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "fleet"
SHOPS = (1, 2, 3, 4)


def free_prefix(start: int) -> str:
    """Return the first digits of four ports that are free."""
    for prefix in range(start, 6000, 7):
        try:
            for shop in SHOPS:
                with socket.create_server(("127.0.0.1", 10 * prefix + shop)):
                    pass
        except OSError:
            continue
        return str(prefix)
    pytest.fail("no ports are free")


def script(page: Path, folder: Path, links: str, apis: str) -> str:
    """Return a page's commands in their order, on other ports; its program is `visitors.py`.

    Where the commands do not start that, it is started in its place.
    """
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.M | re.S)
    starts = any("python visitors.py" in text for language, text in found if language == "bash")
    lines = ["set -e"]
    for language, text in found:
        if language == "python":
            (folder / "visitors.py").write_text(text.replace(":840", f":{apis}"))
            lines += [] if starts else ["python visitors.py"]
        if language == "bash":
            lines.append(text)
    return "\n".join(lines).replace(":740", f":{links}").replace(":840", f":{apis}")


def typed(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Type all of a page into a shell, in an empty folder."""
    programs = folder / "bin"
    programs.mkdir()
    for name, command in (("coopbandits", "-m coopbandits"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {command} "$@"\n')
        (programs / name).chmod(0o755)
    settings = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    commands = script(DOCS / page, folder, free_prefix(2100), free_prefix(4100))
    return subprocess.run(
        ["bash", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}"],
        cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@pytest.mark.slow
@needs_curl
def test_the_five_minutes_are_as_the_page_says(tmp_path: Path) -> None:
    """Three agents, a fourth that joins them, and an arm more for all while they run."""
    done = typed("index.md", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "these nodes fit together\n" in done.stdout
    assert done.stdout.count('{"ready":true}') == 4
    assert re.search(r'{"ticket":"[0-9a-f]{16}-1","arm":"(blue|green|red)"}', done.stdout)
    assert done.stderr.count("the configuration was reloaded") == 4
    assert done.stderr.count("stopped after") == 4, "all end by themselves when told to"
    assert "Traceback" not in done.stderr
    line = r"(\w+): mean ([\d.]+), (\d+) pulls, (\d+) of them here\n"
    shown = re.findall(line, done.stdout)
    before, after = shown[:3], {arm: (float(mean), int(pulls)) for arm, mean, pulls, _ in shown[3:]}
    assert [arm for arm, *_ in before] == ["blue", "green", "red"]
    assert max(before, key=lambda row: int(row[2]))[0] == "blue"
    assert sum(int(here) for *_, here in before) == 200
    assert sum(int(pulls) for _, _, pulls, _ in before) > 250, "what the others told is in it"
    assert list(after) == ["blue", "green", "red", "gold"]
    assert after["gold"] > after["blue"], "visitors like it better, and all agents know"
    assert after["gold"][1] > 100
    (fourth,) = (json.loads(told)["arms"] for told in re.findall(r'{"arms":.*?]}', done.stdout))
    assert sum(arm["own_pulls"] for arm in fourth) == 0
    assert sum(arm["pulls"] for arm in fourth) > 500, "it knows what others have learned"


@pytest.mark.slow
@needs_curl
def test_the_tutorial_is_as_it_says(tmp_path: Path) -> None:
    """Every output that it shows is there; numbers are those of a model, so only the order is."""
    done = typed("tutorial.md", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said, refused, *_ = re.findall(
        r"^```text\n(.*?)^```$", (DOCS / "tutorial.md").read_text(), re.M | re.S
    )
    for line in said.splitlines():
        assert f"{line}\n" in done.stdout
    assert "these nodes fit together\n" in done.stdout
    assert refused.strip() in done.stdout
    assert re.search(r'{"ticket":"[0-9a-f]{16}-1","arm":"(blue|green)"}', done.stdout)
    believed = re.findall(r"(phone|desk): blue ([\d.]+), green ([\d.]+)\n", done.stdout)
    better = [(device, float(blue) > float(green)) for device, blue, green in believed]
    assert better == [("phone", True), ("desk", False), ("phone", False), ("desk", True)]
    assert done.stderr.count("stopped after") == 3, "of four that ran, one was killed"
    assert "Traceback" not in done.stderr
