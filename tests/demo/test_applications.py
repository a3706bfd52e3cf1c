"""The demo's files, options and applications."""

from __future__ import annotations

import asyncio
import io
import lzma
import zipfile
import zlib
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Self

import pytest

from coopbandits.core.errors import InputError
from coopbandits.demo import applications
from coopbandits.demo.applications import (
    DEFAULT,
    NIGHT_BYTES,
    NIGHTS,
    OPTIONS,
    SIGMA,
    TEXT_BYTES,
    AdvisedApplication,
    BlindApplication,
    Measurement,
    Supply,
    backups,
    make_supply,
    measure,
    texts,
)
from coopbandits.fleet.client import UnreachableError
from coopbandits.fleet.local.applications import Ending
from coopbandits.fleet.service import Choice, Receipt


def test_texts_are_modules() -> None:
    first, second = islice(texts(cycle([b"import this\n" * 9000])), 2)
    assert len(first) == len(second) == TEXT_BYTES
    assert first.startswith(b"import this\n")


def test_nights_are_archives_that_differ_in_one_file() -> None:
    modules = [path.read_bytes() for path in sorted(Path(io.__file__).parent.glob("*.py"))[:60]]
    backup = next(backups(cycle(modules)))
    starts = [at for at in range(len(backup)) if backup.startswith(b"PK\x03\x04", at)]
    with zipfile.ZipFile(io.BytesIO(backup)) as last:  # zip files are read from the end
        members = last.namelist()
        kept = [last.read(name) for name in members[:-1]]
        assert all(each in modules for each in kept)
    assert len(starts) == NIGHTS * len(members)
    assert len(backup) > NIGHTS * NIGHT_BYTES


def test_a_supply_changes_its_kind_once_told() -> None:
    supply = make_supply(count=3)
    early = [supply.take() for _ in range(4)]
    assert early[3] == early[0]
    assert not any(each.startswith(b"PK") for each in early)
    supply.change()
    assert all(supply.take().startswith(b"PK") for _ in range(4))


def test_zlib_does_not_see_what_repeats_and_lzma_does() -> None:
    supply = make_supply(count=3)
    supply.change()
    for data in (supply.take() for _ in range(3)):
        assert len(zlib.compress(data)) > 0.95 * len(data)
        assert len(lzma.compress(data, preset=0)) < 0.35 * len(data)


def test_without_modules_there_is_nothing_to_compress(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="150000 bytes"):
        make_supply(tmp_path)


def test_a_reward_is_what_was_saved_less_the_price() -> None:
    assert Measurement(1000, 400, 0.0).reward == pytest.approx(0.6)
    assert Measurement(1000, 400, 0.25).reward == pytest.approx(0.35)
    assert Measurement(1000, 1000, 0.0).reward == 0.0
    assert Measurement(1000, 900, 0.2).reward == 0.0


def test_another_option_is_best_once_the_files_change() -> None:
    """Rewards depend on the files alone, so this holds on every machine."""
    supply = make_supply(count=10)
    for best in ("zlib-1", "lzma-0"):
        files = [supply.take() for _ in range(10)]
        worth = {each: sum(measure(each, data).reward for data in files) for each in OPTIONS}
        second = sorted(worth.values())[-2]
        assert worth[best] > second + 10 * SIGMA
        supply.change()


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_measured(option: str) -> None:
    data = b"the same again, " * 10_000
    found = measure(option, data)
    assert found == measure(option, data)
    assert found.size == len(data)
    assert 0 < found.compressed < 0.02 * len(data)
    module = __import__({"zlib": "zlib", "bz2": "bz2", "lzma": "lzma"}[option.partition("-")[0]])
    assert module.decompress(OPTIONS[option].compress(data)) == data


SUPPLY = Supply([b"some text, " * 100], [b"a backup, " * 100])


class Agent:
    """Stands in for a client: each call to `observe` is answered as it was told."""

    def __init__(self, choices: list[str], answers: list[bool]) -> None:
        self.choices, self.answers = choices, answers
        self.told: list[tuple[str, float]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def choose(self) -> Choice:
        ticket = self.choices.pop(0)
        return Choice(ticket, DEFAULT if ticket.startswith("default") else "lzma-0")

    async def observe(self, ticket: str, reward: float) -> Receipt:
        if self.answers and not self.answers.pop(0):
            raise UnreachableError("it is away")
        self.told.append((ticket, reward))
        return Receipt(ticket, "lzma-0", reward, duplicate=False)


def work(made: Any, files: int) -> None:
    """Let an application compress some files."""

    async def run() -> None:
        ending = Ending()
        before = made.compress_one

        async def count() -> None:
            await before()
            if len(made.deeds) == files:
                ending.set()

        made.compress_one = count
        await made.work(ending)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "PERIOD", 0.001)


def advised(agent: Agent) -> AdvisedApplication:
    made = AdvisedApplication("a00", "127.0.0.1:1", SUPPLY)
    made._client = agent  # type: ignore[assignment]  # a stand-in
    return made


def test_what_an_agent_did_not_take_is_handed_in_later_in_order() -> None:
    agent = Agent(["t1", "t2", "t3"], [True, False, False])
    made = advised(agent)
    work(made, 3)
    assert [ticket for ticket, _ in agent.told] == ["t1", "t2", "t3"]
    assert [reward.ticket for reward in made.acknowledged] == ["t1", "t2", "t3"]
    assert [reward for _, reward in agent.told] == [deed.found.reward for deed in made.deeds]
    assert {reward.arm for reward in made.acknowledged} == {list(OPTIONS).index("lzma-0")}


def test_what_is_owed_in_the_end_is_still_handed_in() -> None:
    agent = Agent(["t1"], [False, False, False, True])
    work(advised(agent), 1)
    assert [ticket for ticket, _ in agent.told] == ["t1"]


def test_it_does_not_try_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "FINISH_SECONDS", 0.02)
    agent = Agent(["t1"], [False] * 10_000)
    work(advised(agent), 1)
    assert agent.told == []


@pytest.mark.parametrize("ticket", ["default:zlib-9", ""])
def test_nothing_is_owed_for_a_default_or_mere_advice(ticket: str) -> None:
    agent = Agent([ticket], [])
    made = advised(agent)
    work(made, 1)
    assert agent.told == []
    assert len(made.deeds) == 1


def test_the_blind_application_takes_all_in_turn() -> None:
    made = BlindApplication(SUPPLY)
    work(made, 7)
    names = list(OPTIONS)
    assert [deed.option for deed in made.deeds] == [*names, *names[:2]]
    assert {deed.who for deed in made.deeds} == {"blind"}
    moments = [deed.moment for deed in made.deeds]
    assert moments == sorted(moments)
    assert made.deeds[0].found.size == len(b"some text, " * 100)
