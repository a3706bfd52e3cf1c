from __future__ import annotations

from pathlib import Path

import numpy as np

from coopbandits import simulate
from coopbandits.experiments.paper.play import gather, make_part, play
from coopbandits.experiments.paper.settings import FIGURES, LINES, PROBLEM

from .synthetic import make_played

SCALE = (40, 2, 7)
BY_KEY = {line.key: line for line in LINES}


def test_the_later_half() -> None:
    played = make_played(dducb=(1000, 20))
    assert played.middle == 5000
    assert played.growth("dducb").tolist() == [20.0] * 5
    assert played.regret("dducb").tolist() == [997.0, 999.0, 1000.0, 1001.0, 1003.0]


def test_curves_are_named_for_readers_and_begin_where_asked() -> None:
    played = make_played()
    curve = played.curve(BY_KEY["plain"], "rounds", 1000)
    assert curve.label == "DDUCB plain"
    assert np.asarray(curve.x).tolist() == [1000, 5000, 10_000]
    assert np.size(played.curve(BY_KEY["plain"], "values").x) == 5


def test_who_sends_nothing_is_played_once_per_number_of_agents(tmp_path: Path) -> None:
    lines = [BY_KEY[key] for key in ("dducb", "central", "independent")]
    figures = [FIGURES[name] for name in ("cycle-100", "grid-100")]
    parts = [make_part(figure, line, *SCALE) for figure in figures for line in lines]
    played = gather(parts, play(parts, tmp_path, "auto", 1, False))
    assert len(list((tmp_path / "cells").iterdir())) == 4
    for one, figure in zip(played, figures, strict=True):
        policies = [line.policy(figure.network) for line in lines]
        direct = simulate(PROBLEM, figure.network, policies, *SCALE, progress=False)
        assert one.result.dataset.equals(direct.dataset)
        assert one.result.meta["settings"] == direct.meta["settings"]


def test_only_silent_lines_forget_their_graph() -> None:
    for line in LINES:
        part = make_part(FIGURES["grid-100"], line, *SCALE)
        assert (part.cell.network.description == "grid:10x10") == line.uses_graph
        assert part.cell.network.num_agents == 100
