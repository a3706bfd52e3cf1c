"""Runs under faults: who pulls, who hears what, what is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    MPUCB,
    CentralTS,
    CentralUCB,
    DecTS,
    GaussianBandit,
    IndependentUCB,
    InputError,
    Network,
    Result,
    UCBNetwork,
    Vector,
    parse_faults,
    parse_policy,
    simulate,
)
from coopbandits.core import LocalView
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES
from coopbandits.network.faults import DOWN, LOST, directed_links

from .policies import Fixed, FixedAgent, Recording

pytestmark = pytest.mark.plays

PROBLEM = GaussianBandit([0.2, 1.0, 0.6], sigma=0.5)
NETWORK = Network.from_spec("grid:2x4")
POLICIES: list[AnyPolicy] = [UCBNetwork(), MPUCB(3), IndependentUCB(), CentralTS()]
ROUNDS = 60
EVERYTHING = "loss=0.1,delay=2,churn=20..5,sleep=0.1,crash=0.4@20..40:lost,join=0.2@10"


def play(faults: Any = None, policies: Any = POLICIES, **changes: Any) -> Result:
    call: dict[str, Any] = {"runs": 2, "seed": 4, "keep": "arms", "engine": "reference"}
    return simulate(PROBLEM, NETWORK, policies, ROUNDS, faults=faults, **(call | changes))


def test_nothing_lost_is_no_fault() -> None:
    """On every policy that is played, messages and numbers of the perfect network come out."""
    policies = [UCBNetwork(), MPUCB(3), CentralTS(), DDUCB(), DecTS()]
    plain = play(policies=policies, runs=1)
    for faults in ("loss=0", "sleep=0,delay=0"):
        found = play(faults, policies, runs=1)
        assert found.dataset[list(plain.dataset)].identical(plain.dataset), faults
    assert "messages_lost" not in plain.dataset
    none = play("none", policies, runs=1)
    assert none.dataset.identical(plain.dataset)
    assert none.meta["settings"] == plain.meta["settings"]


def test_faults_are_the_same_as_text_and_as_data() -> None:
    left, right = play("loss=0.4,sleep=0.1"), play(parse_faults("sleep=0.1,loss=0.4"))
    assert left.dataset.identical(right.dataset)
    assert left.meta["settings"] == right.meta["settings"]
    assert left.meta["settings"]["faults"] == "loss=0.4,sleep=0.1"


def test_who_acts_pulls() -> None:
    faults = "sleep=0.2,speeds=3,crash=0.5@20..30,join=0.3@9"
    result = play(faults, runs=3)
    for run in range(3):
        chunk = parse_faults(faults).schedule(NETWORK, 4, run).read(ROUNDS)
        pulled = result.arms.values[:, run] >= 0
        assert np.array_equal(pulled, np.broadcast_to(chunk.acts.T == 1, pulled.shape))
    made = (result.arms >= 0).sum(("agent", "pull"))
    assert np.array_equal(result.dataset["pulls"].sum("arm"), made)
    assert np.array_equal(result.dataset["agent_pulls"].sum(("agent", "arm")), made)


def test_regret_counts_pulls_made() -> None:
    result = play("sleep=0.4", rounds=range(1, ROUNDS + 1))
    gaps = np.append(PROBLEM.gaps, 0.0)[result.arms.values]  # −1 is the last entry
    expected = gaps.sum(axis=2).cumsum(axis=2)
    np.testing.assert_allclose(result.regret, expected, rtol=1e-12, atol=1e-12)
    # All rewards have mean and noise: best mean × pulls − rewards is regret minus their noise.
    noise = result.regret - result.realized_regret
    pulls = int(result.dataset["pulls"][0, 0].sum())
    assert abs(float(noise[0, 0, -1])) < 5 * 0.5 * np.sqrt(pulls)


def test_arms_are_told_by_the_problems_order_where_nobody_pulled_too() -> None:
    result = play("sleep=0.3", policies=UCBNetwork(), shuffle_arms=True, runs=4)
    arms = result.arms.values
    assert set(np.unique(arms).tolist()) == {-1, 0, 1, 2}
    for arm in range(3):
        assert np.array_equal((arms == arm).sum(axis=(2, 3)), result.dataset["pulls"][..., arm])


@pytest.mark.parametrize("faults", ["loss=0.5", "churn=9..9", "delay=3", "one-way=0.5", EVERYTHING])
def test_counts_add_up(faults: str) -> None:
    result = play(faults, [MPUCB(2), Chatty()]).deliveries
    sent = result["sent"]
    assert np.array_equal(sent, result["delivered"] + result["lost"] + result["under_way"])
    assert (result["under_way"] >= 0).all()
    assert (result["late"] <= result["delivered"]).all()
    for run in range(2):
        fate = parse_faults(faults).schedule(NETWORK, 4, run).read(ROUNDS).fate
        assert (sent.sel(run=run) == (fate != DOWN).sum()).all()  # these send in every round
        if "delay" not in faults:
            assert (result["lost"].sel(run=run) == (fate == LOST).sum()).all()
            assert (result["under_way"] == 0).all()


@pytest.mark.covering(10)
@pytest.mark.parametrize("text", EXAMPLES)
def test_every_policy_lives_through_everything(text: str) -> None:
    result = play(EVERYTHING, parse_policy(text), runs=1)
    counts = result.deliveries
    assert np.array_equal(
        counts["sent"], counts["delivered"] + counts["lost"] + counts["under_way"]
    )
    assert np.isfinite(result.realized_regret).all()


class ChattyAgent(FixedAgent):
    """Sends one value to everybody in every round; keeps what arrived in which round."""

    def __init__(self, view: LocalView, arm: int = 0) -> None:
        super().__init__(view, arm)
        self.heard: list[list[int]] = []

    def outgoing(self, neighbor: int) -> Vector | None:
        return np.ones(1)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        self.heard.append(list(messages))


class Chatty(Fixed):
    """Everybody talks in every round."""

    name = "chatty"

    def make_agent(self, view: LocalView) -> ChattyAgent:
        return ChattyAgent(view)


def watch(faults: str) -> Sequence[FixedAgent]:
    """Play a run of chatty agents; return all that were made."""
    policy = Recording(ChattyAgent)
    play(faults, policies=policy, runs=1)
    return policy.agents


def test_agents_hear_what_arrives_and_their_clock_goes_on() -> None:
    faults = "loss=0.3,sleep=0.2"
    links = directed_links(NETWORK)
    fate = parse_faults(faults).schedule(NETWORK, 4, 0).read(ROUNDS).fate
    for i, agent in enumerate(watch(faults)):
        assert isinstance(agent, ChattyAgent)
        mine = links.receivers == i
        expected = [links.senders[mine & (row == 0)].tolist() for row in fate]
        assert agent.heard == expected
        acts = parse_faults(faults).schedule(NETWORK, 4, 0).read(ROUNDS).acts[:, i]
        assert len(agent.words) == acts.sum()


def test_fresh_agents_begin_at_the_present_round() -> None:
    agents = watch("crash=0.25@20..30:lost")
    assert len(agents) == 10
    for old, new in ((i, n) for n in agents[8:] for i in agents[:8] if i.view == n.view):
        assert isinstance(old, ChattyAgent)
        assert isinstance(new, ChattyAgent)
        assert len(old.heard) == 29  # rounds 1 to 29
        assert len(new.heard) == ROUNDS
        assert not any(new.heard[:29])
        assert len(new.words) == 31  # it pulls in rounds 30 to 60
        assert len(old.words) == 19
    assert len(watch("crash=0.25@20..30")) == 8


def test_a_fresh_agent_has_forgotten() -> None:
    """Its first choices are again every arm once; one whose state was kept goes on."""
    for state, forgets in (("lost", True), ("kept", False)):
        result = play(f"crash=1@40..50:{state}", policies=IndependentUCB())
        after = result.arms.values[0, :, :, 49:52]
        in_turn = (after == [0, 1, 2]).all(axis=2)
        assert in_turn.all() == forgets


def test_central_policies_feel_only_who_acts() -> None:
    central: list[AnyPolicy] = [CentralUCB(), CentralTS()]
    plain, cut = play(policies=central), play("loss=1,churn=5..5,delay=3", central)
    assert np.array_equal(plain.arms, cut.arms)
    assert (cut.deliveries["sent"] == 0).all()
    asleep = play("sleep=0.5", central)
    assert (asleep.dataset["pulls"].sum("arm") < 0.7 * 8 * ROUNDS).all()


def test_everything_lost_is_nobody_heard() -> None:
    result = play("loss=1", [UCBNetwork(constant=2.0), IndependentUCB()])
    assert np.array_equal(result.arms[0], result.arms[1])
    assert (result.deliveries["delivered"] == 0).all()


def test_runs_policies_and_horizons_change_nothing() -> None:
    whole = play(EVERYTHING)
    alone = play(EVERYTHING, policies=MPUCB(3), runs=1)
    assert np.array_equal(whole.arms.sel(policy="mp-ucb:hop_limit=3", run=0), alone.arms[0, 0])
    longer = simulate(
        PROBLEM, NETWORK, POLICIES, 90, 2, 4, "reference", faults=EVERYTHING, keep="arms"
    )
    assert np.array_equal(longer.arms[..., :ROUNDS], whole.arms)


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        (0.3, r"faults.* 0\.3.*'loss=0\.3'"),
        ("los=0.3", "fault 'los'.*'loss'"),
        ("graphs=5:cycle:9", "has other agents"),
    ],
)
def test_bad_faults_are_one_sentence(faults: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        play(faults)
