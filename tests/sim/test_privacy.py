"""Privacy against attackers who see every message and know all rewards but one.

What they do is in `attackers.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.draws import stream_key
from coopbandits.core.sources import SourceState
from coopbandits.sim import reference
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup
from coopbandits.sim.tapes import agent_keys, secret_of

from .attackers import (
    PULLS,
    TARGET,
    WORDS,
    Attacker,
    HalfNoise,
    KeyNoise,
    Messages,
    WordNoise,
    least_epsilon,
    noise_by_word,
    rewards,
    twin_of,
    words_of_exponentials,
)

ERROR = 1e-3
"""How likely a bound on ε may be wrong."""


def policy(name: str, epsilon: float) -> cb.Policy:
    if name == "fed-ucb":
        return cb.FedUCB(epsilon, PULLS)
    played = cb.parse_policy(name)
    assert isinstance(played, cb.Policy)
    return cb.at_source(cb.Private(epsilon, PULLS), played)


COUNTING = ("tree-ucb", "gossip-ts", "running-sums*ucb", "ledger-ucb")
"""Their messages hold exponentials of the random word."""

NAMES = (*COUNTING, "flood-ucb", "fed-ucb")


def word_in(messages: Messages) -> int:
    """Find the target's random word in what was sent."""
    for at in range(messages.size - 32):
        window = messages[at : at + 32]
        if (window > 0.0).all() and WORDS[TARGET] in (found := words_of_exponentials(window)):
            (word,) = found.tolist()  # one candidate is left, which needs no WORDS to be found
            return int(word)
    raise AssertionError("no message holds the target's exponentials")


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("kind", [WordNoise, SourceState])
def test_the_random_word_is_in_one_message_and_tells_nothing_of_rewards(
    name: str, kind: type[SourceState]
) -> None:
    """The exact attack: invert the exponentials, make the noise, and subtract it."""
    attacker = Attacker(policy(name, 1.0), kind)
    true = np.cumsum(rewards(1.0))
    for run in range(3):
        messages = attacker.messages(1.0, run)
        word = word_in(messages)
        noise = [noise_by_word(word, 0, n, 3.0) for n in range(1, PULLS + 1)]
        wrong = abs(attacker.released(messages) - noise - true)
        if kind is WordNoise:
            assert wrong.max() < 1e-9  # the attack works on noise of the word
        else:
            assert wrong.min() > 1e-3


@pytest.mark.parametrize("kind", [KeyNoise, SourceState])
def test_noise_of_known_rewards_does_not_tell_that_of_others(kind: type[SourceState]) -> None:
    """Whoever knows two rewards knows two variates, which must not reveal the key of all."""
    attacker = Attacker(policy("flood-ucb", 1.0), kind, inverts=True)
    for run in range(3):
        for first in (0.0, 1.0):
            certain = abs(attacker.ratio(attacker.messages(first, run))) > 1.0
            assert certain == (kind is KeyNoise)


def measured(attacker: Attacker, runs: int) -> float:
    """A lower bound on ε that the attacker's best guess shows."""
    seen = [attacker.messages(float(run < runs), run) for run in range(2 * runs)]
    ratios = np.array([attacker.ratio(messages) for messages in seen])
    return least_epsilon(ratios[:runs], ratios[runs:], error=ERROR)


@pytest.mark.covering(2)
@pytest.mark.parametrize("name", NAMES)
def test_two_databases_are_hard_to_tell_apart(name: str) -> None:
    assert measured(Attacker(policy(name, 1.0)), 60) <= 1.0


def test_the_measure_finds_noise_that_hides_nothing() -> None:
    assert measured(Attacker(policy("tree-ucb", 1.0), WordNoise), 60) > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_attacker_learns_more_than_epsilon(name: str) -> None:
    """ε = 3, of which a threshold on the likelihood ratio shows 1.5 or more, and never above 3."""
    found = measured(Attacker(policy(name, 3.0)), 2_500)
    print(f"{name}: ε is at least {found:.2f}, claimed 3")
    assert 1.5 < found <= 3.0


def agents_of(played: cb.Policy) -> reference.Agents:
    problem, network = cb.BernoulliBandit([0.5, 0.4]), cb.Network.from_spec("cycle:4")
    setup = Setup(problem, network, 20, np.arange(1, 21), runs=1, seed=5, keep="arms")
    return reference.Agents(Task(setup, played), played, 0)


@pytest.mark.slow
def test_the_measure_finds_noise_of_half_the_size() -> None:
    assert measured(Attacker(policy("flood-ucb", 3.0), HalfNoise), 2_500) > 3.0


def released_by(agent: cb.Agent) -> float:
    for _ in range(PULLS):
        agent.observe(0, 0.5)
    return float(agent.estimate().sums[0])  # type: ignore[attr-defined]  # of agents with parts


def test_an_agent_that_lost_its_memory_draws_fresh_noise() -> None:
    played = policy("tree-ucb", 1.0)
    released = []
    for lives in (0, 1, 2, 2):
        players = agents_of(played)
        for _ in range(lives):
            players.renew(2, 10)
        agent = players.agents[2]
        released.append(released_by(agent))
        assert agent.view.secret == secret_of(5, played.spelling, 0, 2, lives)
    assert len(set(released)) == 3
    assert released[2] == released[3]  # a run stays a function of its seed


FAULTS = "crash=0.5@5..8:lost,crash=0.5@10..15:lost"


def test_faults_that_lose_memories_lead_there() -> None:
    problem, network = cb.BernoulliBandit([0.5, 0.4]), cb.Network.from_spec("cycle:4")
    used: list[bytes] = []

    class Noted(cb.Private):
        def start(self, s: Any, view: cb.LocalView) -> None:
            used.append(view.secret)
            super().start(s, view)

    played = cb.at_source(Noted(1.0, 20), cb.FloodUCB())
    cb.simulate(problem, network, played, horizon=20, runs=2, seed=1, faults=FAULTS)
    assert len(used) > 8
    assert len(set(used)) == len(used)


def test_only_agents_that_need_a_secret_have_one() -> None:
    assert {agent.view.secret for agent in agents_of(cb.TreeUCB()).agents} == {b""}
    played = policy("flood-ucb", 1.0)
    told = [agent.view for agent in agents_of(played).agents]
    secrets = [secret_of(5, played.spelling, 0, i, 0) for i in range(4)]
    assert [view.secret for view in told] == secrets
    assert {view.random_word for view in told} == {0}


def test_secrets_do_not_follow_from_what_messages_reveal_of_the_seed() -> None:
    """One random word gives the keys of all streams, which a twin seed shares."""
    seed = 0x9E3779B97F4A7C15F39CC0605CEDC834
    twin = twin_of(seed)
    assert twin != seed
    for stream in range(16):
        assert stream_key(seed, stream, 3) == stream_key(twin, stream, 3)
        assert (agent_keys(seed, stream, 3, 4) == agent_keys(twin, stream, 3, 4)).all()
    assert secret_of(seed, "", 3, 0, 0) != secret_of(twin, "", 3, 0, 0)


def test_secrets_have_one_use() -> None:
    """Equal noise of two policies of one call would cancel in the difference of their sums."""
    used = {
        secret_of(seed, name, run, agent, life)
        for seed in (0, 1, 2**200)
        for name in ("", "a", "b")
        for run in range(2)
        for agent in range(3)
        for life in range(2)
    }
    assert len(used) == 3 * 3 * 2 * 3 * 2
    first, second = (
        released_by(agents_of(policy(name, 1.0)).agents[0]) for name in ("flood-ucb", "tree-ucb")
    )
    assert first != second
