"""A signed document changes three real agents while they run, through a kill."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from coopbandits.cli import app
from coopbandits.fleet.config.read import write_config
from coopbandits.fleet.document.seal import sign_file, signature_file
from coopbandits.fleet.identity.operators import key_text, make_key
from coopbandits.fleet.local.agents import Members, Place, prepared, reserve_port, write_configs
from coopbandits.fleet.local.settings import make_settings

Answers = dict[str, Any]


async def wait_until(members: Members, true: Callable[[Answers], bool]) -> Answers:
    """Return what all agents tell of the cluster once something is true of it, or after a while."""
    deadline = time.monotonic() + 90.0
    while True:
        found: Answers = await members.ask("cluster")
        if true(found) or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.05)


def have(version: int, *names: str) -> Callable[[Answers], bool]:
    return lambda found: all(found[name] and found[name]["version"] == version for name in names)


class Operator:
    """Somebody with a key and a folder of documents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.key = folder / "operator.key"
        self.public = key_text(make_key(self.key))

    def write(self, version: int, name: str = "local", **tables: Any) -> Path:
        path = self.folder / f"{version}.toml"
        head = {"name": name, "version": version, "revoked": tables.pop("revoked", [])}
        path.write_text(write_config({"cluster": head, **tables}))
        sign_file(path, [self.key])
        return path

    async def apply(self, path: Path, place: Place) -> None:
        command = ["cluster", "apply", str(path), "--to", place.api]
        await asyncio.to_thread(app, command, standalone_mode=False)


async def change(
    places: Sequence[Place], operator: Operator, watched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Members(places) as members:
        everybody = [place.id for place in places]
        await operator.apply(operator.write(1), places[0])
        assert "a00 has version 1" in capsys.readouterr().out
        found = await wait_until(members, have(1, "a00", "a01"))
        assert [found[name]["version"] for name in everybody] == [1, 1, 0]

        # The last one has a wrong address of its neighbour; the document in its folder mends it.
        where = [{"id": place.id, "address": str(place.listen)} for place in places]
        second = operator.write(2, members=where, settings={"rounds_per_second": 5.0})
        shutil.copy(signature_file(second), signature_file(watched))
        shutil.copy(second, watched)
        found = await wait_until(members, have(2, *everybody))
        assert have(2, *everybody)(found)
        assert len({found[name]["digest"] for name in everybody}) == 1

        # One dies, and hears of the next document from its neighbours when it is back.
        await members.all[1].kill()
        await operator.apply(operator.write(3, members=where), places[0])
        found = await wait_until(members, have(3, "a00"))
        assert found["a01"] is None
        assert found["a02"]["version"] == 2
        await members.restart(members.all[1])
        assert have(3, *everybody)(await wait_until(members, have(3, *everybody)))

        # What is revoked loses its links at once.
        await operator.apply(operator.write(4, revoked=["a02"]), places[1])
        await wait_until(members, have(4, "a00", "a01"))
        health = (await members.ask("health"))["a01"]
        assert health["links"]["a02"].startswith("down: ")
        assert health["document"]["version"] == 4
        assert health["document"]["alarm"] == ""


@pytest.mark.slow
def test_three_agents_take_documents_without_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = make_settings("path:3", "0.6,0.5")
    operator, watched = Operator(tmp_path / "operator"), tmp_path / "watched.toml"
    with prepared(tmp_path / "fleet", settings) as places, ExitStack() as held:
        write_configs(places, settings, {("a02", "a01"): reserve_port(held)})
        for place in places:
            table = {"operators": [operator.public]}
            more = {"file": watched} if place.id == "a02" else {}
            with place.config.open("a") as file:
                file.write("\n" + write_config({"document": table | more}))
        asyncio.run(change(places, operator, watched, capsys))
    log = (tmp_path / "fleet" / "a01" / "log.txt").read_text()
    assert "cluster document version 4 is in force" in log
    assert "Traceback" not in log
