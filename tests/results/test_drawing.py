"""Results drawn onto given axes, and agents as curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from coopbandits import InputError, Result

from .conftest import made


def result_of_agents(amount: int) -> Result:
    result = made(policies=("dducb",))
    ends = np.arange(amount)[None, None, :, None] * np.array([1.0, 2.0, 3.0, 4.0])
    shape = (1, 4, amount, 4)
    regret = (("policy", "run", "agent", "round"), np.broadcast_to(ends, shape))
    names = [f"agent {i}" for i in range(amount)]
    worst = (("policy", "run", "round"), regret[1].max(axis=2))
    dataset = result.dataset.assign(agent_regret=regret, worst_regret=worst)
    dataset = dataset.assign_coords(agent=names)
    return Result(dataset, result.meta)


def test_results_onto_given_axes(tmp_path: Path) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    result = result_of_agents(3)
    assert result.plot(ax=left) is left
    assert result.plot_agents(ax=right, path=tmp_path / "both.png") is right
    assert len(left.get_lines()) == 1
    assert [line.get_label() for line in right.get_lines()] == ["agent 0", "agent 1", "agent 2"]
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_that_was_drawn_before_is_not_drawn_again(tmp_path: Path) -> None:
    """The report is the same, byte for byte, and has what it was given."""
    result = made(policies=("dducb",))
    result.plot(path=tmp_path / "regret.svg")
    drawn = (tmp_path / "regret.svg").read_bytes()
    anew = result.report(tmp_path / "anew.html").read_text()
    assert result.report(tmp_path / "given.html", drawn=drawn).read_text() == anew
    marked = result.report(
        tmp_path / "m.html", drawn=drawn.replace(b"</svg>", b"<g id='x'/></svg>")
    )
    assert marked.read_text().count("<g id='x'/>") == 1


def test_many_agents_are_a_crowd_with_its_extremes() -> None:
    (axes,) = result_of_agents(30).plot_agents("dducb").axes
    legend = axes.get_legend()
    assert legend is not None
    named = [text.get_text() for text in legend.get_texts()]
    assert named == ["highest: agent 29", "mean of 30 agents", "lowest: agent 0"]
    assert len(axes.get_lines()) == 33
    assert axes.get_ylabel() == "cumulative regret of one agent (reward)"


def test_agents_of_several_policies_must_be_named() -> None:
    with pytest.raises(ValueError, match="dducb, independent-ucb"):
        made().plot_agents()


def test_other_regrets_are_drawn_by_name() -> None:
    result = result_of_agents(3)
    for of, words in (("own", "of the network"), ("global", "network's mean"), ("worst", "worst")):
        (axes,) = result.plot(of=of).axes
        assert words in axes.get_ylabel()
    np.testing.assert_array_equal(result.curve("dducb", of="worst").y, [2, 4, 6, 8])
    with pytest.raises(InputError, match="'best'"):
        result.plot(of="best")
