"""The first page's start, as it is typed: three agents with certificates on one machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "fleet" / "index.md"
SHOPS = (1, 2, 3)


def free_prefix(start: int) -> str:
    """Return the first digits of three ports that are free."""
    for prefix in range(start, 6000, 7):
        try:
            for shop in SHOPS:
                with socket.create_server(("127.0.0.1", 10 * prefix + shop)):
                    pass
        except OSError:
            continue
        return str(prefix)
    pytest.fail("no ports are free")


def script(folder: Path) -> str:
    """Return the page's commands and programs, in their order, on other ports."""
    lines = ["set -e"]
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        if language == "python":
            (folder / "visitors.py").write_text(text)
            text = f"{sys.executable} visitors.py\n"
        if language in ("bash", "python"):
            lines.append(text)
    links, apis = free_prefix(2100), free_prefix(4100)
    visitors = folder / "visitors.py"
    visitors.write_text(visitors.read_text().replace(":840", f":{apis}"))
    return "\n".join(lines).replace(":740", f":{links}").replace(":840", f":{apis}")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_five_minutes_are_as_the_page_says(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "coopbandits"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m coopbandits "$@"\n')
    program.chmod(0o755)
    settings = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script(tmp_path)}"],
        cwd=tmp_path, env=settings, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "these nodes fit together\n" in done.stdout
    assert done.stdout.count('{"ready":true}') == 3
    assert re.search(r'{"ticket":"[0-9a-f]{16}-1","arm":"(blue|green|red)"}', done.stdout)
    assert done.stderr.count("stopped after") == 3, "all end by themselves when told to"
    assert "Traceback" not in done.stderr
    line = r"(blue|green|red): mean [\d.]+, (\d+) pulls, (\d+) of them here\n"
    shown = re.findall(line, done.stdout)
    assert [arm for arm, _, _ in shown] == ["blue", "green", "red"]
    pulls = {arm: int(count) for arm, count, _ in shown}
    assert max(pulls, key=lambda arm: pulls[arm]) == "blue"
    assert sum(int(here) for _, _, here in shown) == 200
    assert sum(pulls.values()) > 250, "what the others told is in it"
