"""Agents on their own clocks: an event queue that is a function of its seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    MPUCB,
    CentralBatchedUCB,
    CentralTS,
    GaussianBandit,
    IndependentTS,
    IndependentUCB,
    InputError,
    Network,
    Policy,
    Result,
    UCBNetwork,
    Vector,
    parse_policy,
    simulate,
)
from coopbandits.core import LocalView
from coopbandits.core.registry import EXAMPLES
from coopbandits.sim.asynchronous import Letter, Run
from coopbandits.sim.clocks import PoissonClocks
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup

from .policies import Fixed, FixedAgent, Recording

pytestmark = pytest.mark.plays

PROBLEM = GaussianBandit([0.2, 1.0, 0.6], sigma=0.5)
NETWORK = Network.from_spec("grid:2x4")
HORIZON = 60


def play(clocks: Any, policies: Any, **changes: Any) -> Result:
    call: dict[str, Any] = {"runs": 2, "seed": 4, "engine": "reference", "keep": "agents"}
    return simulate(PROBLEM, NETWORK, policies, HORIZON, clocks=clocks, **(call | changes))


@pytest.mark.parametrize("shuffle_arms", [False, True])
def test_equal_regular_clocks_are_rounds_to_those_who_need_none(shuffle_arms: bool) -> None:
    """Agents pull once between any two whole times, so all that is recorded there is the same."""
    policies = [IndependentUCB(), IndependentTS()]
    call: dict[str, Any] = {"rounds": range(1, HORIZON + 1), "shuffle_arms": shuffle_arms}
    rounds, clocks = (play(clocks, policies, **call) for clocks in (None, "regular"))
    for name in ("regret", "pulls", "agent_pulls", "values_sent", "messages_sent"):
        assert np.array_equal(rounds.dataset[name], clocks.dataset[name]), name
    np.testing.assert_allclose(rounds.realized_regret, clocks.realized_regret, rtol=1e-9)
    assert clocks.meta["settings"] == {**rounds.meta["settings"], "clocks": "regular"}


def test_a_run_is_a_function_of_its_seed() -> None:
    policies = [UCBNetwork(), IndependentUCB()]
    clocks = "poisson:ratio=10,latency=0.7,gossip=2"
    whole = play(clocks, policies, faults="loss=0.2")
    assert whole.dataset.identical(play(clocks, policies, faults="loss=0.2").dataset)
    alone = play(clocks, UCBNetwork(), faults="loss=0.2", runs=1)
    part = whole.dataset.sel(policy=["ucb-network"], run=[0])
    assert part.identical(alone.dataset)
    other = play(clocks, policies, faults="loss=0.2", seed=5)
    assert not np.array_equal(whole.dataset["agent_pulls"], other.dataset["agent_pulls"])
    assert not np.array_equal(
        whole.dataset["agent_pulls"][:, 0], whole.dataset["agent_pulls"][:, 1]
    )


def test_a_longer_horizon_only_adds() -> None:
    short = play("poisson:latency=0.5", UCBNetwork(), rounds=[20, 40])
    longer = simulate(
        PROBLEM, NETWORK, UCBNetwork(), 90, 2, 4, "reference", clocks="poisson:latency=0.5",
        rounds=[20, 40, 60],
    )  # fmt: skip
    for name in ("regret", "values_sent"):
        assert np.array_equal(short.dataset[name], longer.dataset[name][..., :3])


def test_agents_pull_as_often_as_their_clocks_say() -> None:
    rates = "0.5..1..1..1..1..1..1..1.5"
    for kind, error in (("regular", 1.0), ("poisson", 5 * np.sqrt(1.5 * HORIZON))):
        result = play(f"{kind}:rates={rates}", Fixed())
        pulls = result.dataset["agent_pulls"][0, 0].sum("arm").values
        assert (np.abs(pulls - HORIZON * np.array([0.5, *[1] * 6, 1.5])) <= error).all()
        assert int(result.dataset["pulls"].sum()) == int(result.dataset["agent_pulls"].sum())
    unequal = play("regular:ratio=10", Fixed(), runs=1).dataset["agent_pulls"][0, 0].sum("arm")
    assert float(unequal.max()) > 2.5 * float(unequal.min())
    assert float(unequal.mean()) == pytest.approx(HORIZON, abs=1.0)


class LoggingAgent(FixedAgent):
    """Sends (own number, number of the message); keeps every inbox and its own view."""

    def __init__(self, view: LocalView, arm: int = 0) -> None:
        super().__init__(view, arm)
        self.heard: list[dict[int, int]] = []

    def outgoing(self, neighbor: int) -> Vector | None:
        return np.array([self.view.agent_id, len(self.heard)], dtype=float)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        assert list(messages) == sorted(messages)
        assert all(message[0] == j for j, message in messages.items())
        self.heard.append({j: int(message[1]) for j, message in messages.items()})


def watch(clocks: str, faults: str | None = None) -> tuple[list[LoggingAgent], Any]:
    policy = Recording(LoggingAgent)
    result = play(clocks, policy, runs=1, faults=faults)
    agents = [agent for agent in policy.agents if isinstance(agent, LoggingAgent)]
    return agents, result.deliveries.isel(policy=0, run=0)


def test_equal_clocks_without_latency_deliver_everything_once() -> None:
    """Between two gossip events of an agent every neighbour has exactly one."""
    agents, counts = watch("regular")
    for agent in agents:
        assert len(agent.heard) == HORIZON
        for inbox, before in zip(agent.heard[1:], agent.heard, strict=False):
            assert sorted(inbox) == list(agent.view.neighbor_weights)
            assert all(inbox[j] == before.get(j, -1) + 1 for j in inbox)
        assert not agent.view.common_round
    assert int(counts["sent"]) == NETWORK.adjacency.nnz * HORIZON
    assert (int(counts["lost"]), int(counts["late"])) == (0, 0)
    assert 0 < int(counts["under_way"]) <= NETWORK.adjacency.nnz


def test_gossip_has_its_own_speed() -> None:
    agents, counts = watch("regular:gossip=0.25")
    assert {len(agent.heard) for agent in agents} == {HORIZON // 4}
    assert {len(agent.words) for agent in agents} == {HORIZON}
    assert int(counts["sent"]) == NETWORK.adjacency.nnz * HORIZON // 4


@pytest.mark.parametrize("clocks", ["poisson", "poisson:ratio=10,latency=3", "regular:latency=1.5"])
def test_the_latest_message_of_each_neighbour_is_received(clocks: str) -> None:
    agents, counts = watch(clocks)
    total = int(counts["delivered"] + counts["lost"] + counts["under_way"])
    assert int(counts["sent"]) == total
    assert int(counts["delivered"]) == sum(len(inbox) for a in agents for inbox in a.heard)
    heard = [(i, j, n) for i, a in enumerate(agents) for inbox in a.heard for j, n in inbox.items()]
    assert len(heard) == len(set(heard))  # none twice
    assert int(counts["lost"]) > 0  # overtaken by a newer one
    assert int(counts["late"]) > 0


def test_latency_makes_messages_late() -> None:
    quick, slow = (watch(f"regular:latency={mean}")[1] for mean in (0.01, 5))
    assert int(quick["late"]) < 0.05 * int(quick["delivered"])
    assert int(slow["late"]) > 0.8 * int(slow["delivered"])
    assert int(slow["under_way"]) > 2 * int(quick["under_way"])


def test_messages_are_lost_too() -> None:
    _, counts = watch("regular", "loss=0.3,loss=0.5")
    sent = int(counts["sent"])
    assert abs(int(counts["lost"]) - 0.65 * sent) < 5 * np.sqrt(0.65 * 0.35 * sent)


@pytest.mark.slow
def test_cooperation_pays_on_own_clocks_and_not_when_all_is_lost() -> None:
    policies = [UCBNetwork(4.0), IndependentUCB(4.0)]
    heard, deaf = (
        play("poisson:ratio=4", policies, faults=faults, runs=6).regret.isel(round=-1).mean("run")
        for faults in (None, "loss=1")
    )
    assert float(heard[0]) < 0.9 * float(heard[1])
    assert float(deaf[0]) == float(deaf[1])


@pytest.mark.covering(16)
@pytest.mark.parametrize("text", EXAMPLES)
def test_every_policy_plays_on_own_clocks_or_says_that_it_cannot(text: str) -> None:
    policy = parse_policy(text)
    call: dict[str, Any] = {"runs": 1, "faults": "loss=0.2", "clocks": "poisson:ratio=5,latency=1"}
    if isinstance(policy, Policy) and policy.needs_common_round:
        with pytest.raises(InputError, match=f"{policy.spelling}.*rounds"):
            play(policies=policy, **call)
        return
    result = play(policies=policy, **call)
    counts = result.deliveries
    assert np.array_equal(
        counts["sent"], counts["delivered"] + counts["lost"] + counts["under_way"]
    )
    assert np.isfinite(result.realized_regret).all()


def test_a_controller_sees_whole_units_of_time() -> None:
    """On equal regular clocks every unit has one pull of everybody: the batches are the rounds."""
    policies = [CentralBatchedUCB()]
    rounds, clocks = (play(clocks, policies) for clocks in (None, "regular"))
    assert np.array_equal(rounds.dataset["pulls"], clocks.dataset["pulls"])
    assert (clocks.deliveries["sent"] == 0).all()
    assert float(play("poisson", CentralTS()).regret.isel(round=-1).mean()) > 0


def test_the_compiled_engine_hands_over(capsys: pytest.CaptureFixture[str]) -> None:
    result = play("regular", CentralTS(), engine="cpu")
    note = " ".join(capsys.readouterr().err.split())
    assert "central-ts has no compiled kernel" in note
    assert result.meta["engines"] == ["reference"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"policies": DDUCB()}, r"\bdducb\b.*rounds"),
        ({"policies": MPUCB(2)}, "mp-ucb:hop_limit=2.*rounds"),
        (
            {"faults": "sleep=0.1"},
            "sleep.*rounds.*clocks",
        ),
        ({"keep": "arms"}, r'arms.*clocks.*keep="agents"'),
        ({"clocks": 3.0}, r"clocks.* 3\.0.*'poisson:ratio=10'"),
        ({"clocks": "poisson:rates=1..2"}, "rates.* 2 .* 8 agents"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        play(**({"clocks": "poisson", "policies": UCBNetwork()} | changes))


@pytest.mark.parametrize("times", [(1.0, 2.0), (2.0, 1.0)])
def test_the_newer_of_two_letters_is_kept_whichever_comes_first(times: tuple[float, float]) -> None:
    clocks = PoissonClocks()
    setup = Setup(PROBLEM, NETWORK, 5, np.array([5]), clocks=clocks)
    run = Run(Task(setup, Fixed()), clocks, 0)
    for sent in times:
        run._arrive(0, Letter(1, sent, np.array([sent])))
    run._arrive(0, Letter(4, 0.5, np.array([0.5])))
    assert {sender: letter.sent for sender, letter in run.inboxes[0].items()} == {1: 2.0, 4: 0.5}
    assert run.counts.lost == 1
