"""Whole runs in one kernel give the same bits as stage by stage."""

from __future__ import annotations

import pytest

from coopbandits import DDUCB, BernoulliBandit, GaussianBandit, Network, Problem, simulate
from coopbandits.sim.cpu import staged

PROBLEMS = [GaussianBandit([1.0, 0.8, 0.7], sigma=0.5), BernoulliBandit([0.6, 0.4])]
VARIANTS = [
    DDUCB(),
    DDUCB(own_pulls=False),
    DDUCB(accelerated=False, mixing_rounds=3),
    DDUCB(values_per_message=2),
    DDUCB(num_agents=(4, 90)),
    DDUCB(mixing_rounds=1),
]


@pytest.mark.covering
@pytest.mark.parametrize("problem", PROBLEMS, ids=["gaussian", "bernoulli"])
@pytest.mark.parametrize("policy", VARIANTS, ids=lambda policy: policy.spelling)
@pytest.mark.parametrize("graph", ["cycle:40", "grid:3x3", "complete:5"])
def test_same_bits(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, policy: DDUCB, graph: str
) -> None:
    network = Network.from_spec(graph)
    monkeypatch.setattr(staged, "is_dense_cheaper", lambda *_: True)
    monkeypatch.setattr(staged, "SEVERAL_PULLS", 3 * 4 * network.num_agents * 7)
    used: list[bool] = []

    def play(whole: bool) -> object:
        def can(stages: staged.BonusStages) -> bool:
            used.append(whole)
            return whole

        monkeypatch.setattr(staged.BonusStages, "can_play_whole_runs", can)
        return simulate(problem, network, policy, 333, runs=3, rounds=list(range(1, 334))).dataset

    together, apart = play(whole=True), play(whole=False)
    assert set(used) == {True, False}
    assert together.identical(apart)  # type: ignore[attr-defined]  # an xarray dataset


def test_used_where_it_can_be() -> None:
    """With as many runs as threads, a dense operator and nothing kept per agent."""
    seen = []
    original = staged.BonusStages.play_several

    def spy(stages: staged.BonusStages) -> None:
        seen.append(stages.stage_rounds)
        original(stages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged.BonusStages, "play_several", spy)
        network = Network.from_spec("cycle:50")
        simulate(PROBLEMS[0], network, DDUCB(), 2000, runs=4, threads=1)
        assert seen
        seen.clear()
        simulate(PROBLEMS[0], network, DDUCB(), 2000, runs=4, threads=1, keep="agents")
        assert not seen
