"""`coopbandits fleet to-sections`: one agent after the other, and nothing is forgotten."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import read_config
from coopbandits.fleet.document.seal import to_json
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.process.sections import to_sections

from ..document.made import signed, text
from .agents import Agent, agents, lonely, wait


def opened(agent: Agent) -> LocalAgent:
    return LocalAgent(read_config(agent.path, now=time.time(), insecure=True))


def known(agent: LocalAgent) -> float:
    return sum(arm.pulls for arm in agent.arms())


def play(agent: LocalAgent, times: int) -> None:
    for _ in range(times):
        agent.observe(agent.choose().ticket, 1.0)


def convert(agent: Agent) -> None:
    app(["fleet", "to-sections", str(agent.path), "button"], standalone_mode=False)


def test_a_fleet_is_converted_agent_by_agent_and_then_ruled_by_a_document(
    tmp_path: Path, certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with agents(tmp_path, certificates=certificates) as (alpha, beta):
        for agent in (alpha, beta):
            agent.tables["document"] = {"operators": [text(1)]}
            agent.write()
        with opened(beta) as other:
            with opened(alpha) as one:
                play(one, 3)
                play(other, 4)
                wait(lambda: known(one) == known(other) == 7.0)
                ticket = one.choose().ticket
                with pytest.raises(InputError, match="alpha must be stopped to be converted"):
                    convert(alpha)  # it runs
            convert(alpha)
            told = capsys.readouterr().out
            assert "the journal goes on with it: agent alpha in round" in told
            assert told.endswith("rewards: 3; open tickets: 1\n")
            with opened(alpha) as one:  # the other has not been touched
                assert known(one) == 7.0
                assert not one.observe(ticket, 1.0).duplicate
                play(one, 2)
                play(other, 2)
                assert (known(one), known(other)) == (10.0, 9.0)
        convert(beta)
        with opened(alpha) as one, opened(beta) as other:
            wait(lambda: known(one) == known(other) == 12.0)
            play(other, 1)
            wait(lambda: known(one) == known(other) == 13.0)
            table = {"arms": ["red", "blue", "green"], "reward_range": [0.0, 1.0]}
            one.adopt(to_json(signed(1, bandits={"button": table})))
            wait(lambda: len(other.arms()) == 3)
            assert known(other) == 13.0
    assert (alpha.folder / "node.toml.plain").exists()
    assert (alpha.folder / "memory" / "journal.plain").exists()


def test_a_crash_half_way_is_gone_on_from(tmp_path: Path) -> None:
    with lonely(tmp_path) as agent:
        with opened(agent) as one:
            play(one, 2)
        before = agent.path.read_bytes()
        convert(agent)
        after = agent.path.read_bytes()
        agent.path.write_bytes(before)  # as if the file had not been written
        assert "has it already: " in to_sections(agent.path, "button", time.time())
        assert agent.path.read_bytes() == after
        with opened(agent) as one:
            assert known(one) == 2.0
        with pytest.raises(InputError, match="has sections of bandits already"):
            convert(agent)


def test_what_cannot_have_a_section_stays_as_it_is(tmp_path: Path) -> None:
    with lonely(tmp_path) as agent:
        agent.tables["cluster"]["policy"] = "gossip-ts"
        agent.write()
        with opened(agent) as one:
            play(one, 1)
        journal = agent.folder / "memory" / "journal"
        before = agent.path.read_bytes(), journal.read_bytes()
        with pytest.raises(InputError, match="cannot go on with other arms; choose one on"):
            convert(agent)
        assert (agent.path.read_bytes(), journal.read_bytes()) == before
        agent.tables["cluster"]["policy"] = "flood-ts"
        agent.write()  # and its journal is of another policy
        with pytest.raises(InputError, match="policy"):
            convert(agent)
    (tmp_path / "new").mkdir()
    with lonely(tmp_path / "new") as agent:
        convert(agent)
        with opened(agent) as one:
            assert known(one) == 0.0
