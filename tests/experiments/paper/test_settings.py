from __future__ import annotations

import pytest

from coopbandits import DDUCB, InputError
from coopbandits.experiments.paper.settings import FIGURES, LINES, PROBLEM, choose_figures


@pytest.mark.parametrize(
    ("name", "agents", "steps"),
    [
        ("cycle-100", 100, 164),
        ("cycle-200", 200, 355),
        ("grid-100", 100, 43),
        ("grid-225", 225, 70),
    ],
)
def test_graphs_are_the_papers(name: str, agents: int, steps: int) -> None:
    network = FIGURES[name].network
    assert (network.num_agents, network.mixing_rounds()) == (agents, steps)


def test_arms_are_the_papers() -> None:
    assert PROBLEM.means.tolist() == [1.0] + [0.8] * 16
    assert PROBLEM.sigma == 1.0


def test_lines_are_told_apart() -> None:
    for names in ([line.key for line in LINES], [line.label for line in LINES]):
        assert len(set(names)) == len(LINES)
    network = FIGURES["grid-100"].network
    assert len({line.policy(network) for line in LINES}) == len(LINES)


def test_unaccelerated_has_the_c_of_the_accelerated_one() -> None:
    line = next(line for line in LINES if line.key == "unaccelerated")
    for figure in FIGURES.values():
        steps = DDUCB().mixing_steps(figure.network.num_agents, figure.network.lambda2)
        assert line.policy(figure.network) == DDUCB(accelerated=False, mixing_rounds=steps)


def test_choosing() -> None:
    assert [figure.name for figure in choose_figures([])] == list(FIGURES)
    chosen = choose_figures(["grid-100", "cycle-100"])
    assert [figure.name for figure in chosen] == ["cycle-100", "grid-100"]
    with pytest.raises(InputError, match=r"'cylce-100'.*'cycle-100'"):
        choose_figures(["cylce-100"])
