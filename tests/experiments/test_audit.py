"""The audit: its exact numbers, that every finding is measured, and its table."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.experiments.audit import Finding, Measured, Measurement, audit_table, run_audit
from coopbandits.experiments.audit.code import grid_matrix
from coopbandits.experiments.audit.matrices import epsilon_c_from_rows, inverse_degree_matrix
from coopbandits.experiments.audit.mixing import chebyshev_mix, mixing_error
from coopbandits.experiments.audit.setup import AuditSetup
from coopbandits.experiments.audit.text import (
    cycle_example,
    mixing_start,
    neighbours_only,
    pulls_of_printed_loop,
    steps_to_know,
)
from coopbandits.network import Network
from coopbandits.theory import epsilon_c


def test_algorithm_2_as_printed_makes_mass_negative() -> None:
    (mass,) = mixing_start(AuditSetup())
    assert "164 steps" in mass.quantity
    assert mass.printed.mean == pytest.approx(-8.75, abs=0.005)
    assert mass.resolved.mean == pytest.approx(1.0, abs=1e-12)


def test_a_sum_over_neighbours_loses_mass() -> None:
    alone, halved, plain = neighbours_only(AuditSetup())
    assert alone.printed.mean == pytest.approx(3.91e-4, rel=1e-2)
    assert halved.printed.mean == pytest.approx(4.84e-4, rel=1e-2)
    assert plain.printed.mean == pytest.approx((2 / 3) ** 164, rel=1e-9)
    assert plain.resolved.mean == pytest.approx(1.0, abs=1e-12)


def test_the_right_mixing_keeps_its_promise() -> None:
    network = Network.from_spec("cycle:100")
    mixed = chebyshev_mix(np.eye(100)[0], network.matrix.toarray(), network.lambda2, 164)
    assert 100 * np.linalg.norm(mixed - 0.01) == pytest.approx(0.0308330, abs=1e-7)
    assert mixing_error(mixed) < 1 / 22


def test_row_sums_of_the_matrix_with_inverse_degrees() -> None:
    network = Network.from_spec("grid:10x10")
    matrix = inverse_degree_matrix(network)
    assert matrix.sum(axis=1).min() == pytest.approx(0.967, abs=5e-4)
    assert matrix.sum(axis=1).max() == pytest.approx(1.008, abs=5e-4)
    np.testing.assert_allclose(matrix @ network.degrees, network.degrees)
    outside = ~(network.adjacency.toarray() + np.eye(100)).astype(bool)
    assert not matrix[outside].any()


def test_epsilon_c_from_rows_is_right_on_average_only() -> None:
    network = Network([(1, 2), (2, 3), (1, 3), (3, 4)])
    wrong, right = epsilon_c_from_rows(network), epsilon_c(network)
    assert wrong.mean() == pytest.approx(right.mean())
    assert np.abs(wrong - right).max() > 0.5


@pytest.mark.parametrize(("num_arms", "horizon", "stage"), [(3, 10, 4), (3, 11, 4), (5, 5, 2)])
def test_the_printed_loop_makes_one_pull_too_many(num_arms: int, horizon: int, stage: int) -> None:
    assert pulls_of_printed_loop(num_arms, horizon, stage) == horizon + 1


@pytest.mark.parametrize("agents", [10, 100, 1000])
def test_steps_to_know_the_number_of_agents_grow_like_its_logarithm(agents: int) -> None:
    expected = math.ceil(math.log(9 * (agents - 1)) / math.log(1 / 0.9))
    assert steps_to_know(agents, 0.9) == expected


def test_the_example_of_the_appendix() -> None:
    gap, rounds = cycle_example(AuditSetup())
    assert gap.printed.mean == pytest.approx(1 - math.cos(2 * math.pi / 101))
    assert gap.resolved.mean == pytest.approx(1 - math.cos(math.pi / 101))
    assert rounds.printed.mean < rounds.resolved.mean


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return run_audit(2, 1, 60, False, cycle="cycle:6", grid="grid:2x3")


def test_every_finding_is_measured(findings: list[Finding]) -> None:
    assert len({finding.key for finding in findings}) == len(findings) == 16
    for finding in findings:
        assert finding.measured
        for measurement in finding.measured:
            assert math.isfinite(measurement.printed.mean)
            assert math.isfinite(measurement.resolved.mean)
            assert measurement.printed != measurement.resolved


def test_differences_are_those_of_the_means(findings: list[Finding]) -> None:
    for finding in findings:
        for measurement in finding.measured:
            if measurement.difference is not None:
                difference = measurement.printed.mean - measurement.resolved.mean
                assert measurement.difference.mean == pytest.approx(difference)


def test_table(findings: list[Finding]) -> None:
    header, *rows = audit_table(findings)
    assert header == ("finding", "where", "printed", "resolved as", "consequence", "measured")
    assert [row[0] for row in rows] == [finding.key for finding in findings]
    assert all(len(row) == len(header) and all(row) for row in rows)
    assert rows[0][-1] == "sum over agents of a 1 after 164 steps on cycle:100: -8.75102 against 1"


def test_words_for_numbers() -> None:
    one, other = np.array([2000.0, 3000.0]), np.array([10.0, 20.0])
    paired = Measurement.paired("regret", one, other)
    assert str(paired).startswith(
        "regret: 2500 [-3853, 8853] against 15.0 [-48.5, 78.5], difference 2485 ["
    )
    assert str(Measured(3.25, (math.nan, math.nan))) == "3.2"
    assert str(Measured.of(np.array([5000.0]))) == "5000"


def test_more_than_the_row_sums_is_said_about_the_grid() -> None:
    setup = AuditSetup("cycle:6", "grid:2x3", horizon=40, runs=1)
    *_, rounds, regret = grid_matrix(setup)
    assert rounds.printed.mean > rounds.resolved.mean
    assert math.isnan(regret.printed.interval[0])


@pytest.mark.parametrize(
    ("name", "runs", "seed", "horizon"),
    [("runs", 0, 0, 10), ("seed", 1, -1, 10), ("horizon", 1, 0, 0)],
)
def test_bad_arguments(name: str, runs: int, seed: int, horizon: int) -> None:
    with pytest.raises(InputError, match=name):
        run_audit(runs, seed, horizon)
