"""lin-ts and lin-ucb, against their formulas written out with numpy, and against one another."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import (
    AGGREGATIONS,
    CentralTotals,
    InputError,
    LinearSums,
    LinTS,
    LinUCB,
    LocalSums,
    NormalDraw,
    StagedMixing,
    combine,
    parse_policy,
)
from coopbandits.core.contract import Estimate
from coopbandits.core.draws import normal_of, word_at
from coopbandits.core.index import linear
from coopbandits.core.index.linear import FEW_NORMALS, cholesky, factored
from coopbandits.core.statistic.linear import in_context

from ..fleet import one_view

REPEATABLE = settings(max_examples=40, deadline=None, derandomize=True, database=None)

SIGMA = 0.5
ARMS, SIZE = 4, 3
WORD = 0x1234_5678_9ABC_DEF0

INDICES = (LinTS(), LinTS(2.0), LinUCB(), LinUCB(0.3, 0.5, 0.1, 2.0, 3.0))
EVERY = pytest.mark.parametrize(
    "index",
    [*INDICES, LinTS(disjoint=True), LinUCB(disjoint=True, scale=0.2)],
    ids=lambda index: index.spelling,
)


def seen(index: Any, seed: int = 0, pulls: int = 20, anticipation: float = 1.0) -> Estimate:
    """Return what some pulls tell, with arms in a context."""
    source = np.random.default_rng(seed)  # noqa: TID251  not a tape
    registers = index.statistic.with_features(SIZE).registers(ARMS)
    values = registers.zeros()
    for _ in range(pulls):
        x = source.normal(size=SIZE)
        registers.record(values, int(source.integers(ARMS)), float(source.normal()), x)
    estimate = registers.read(values, time=20.0, num_agents=1.0, anticipation=anticipation)
    return in_context(estimate, source.normal(size=(ARMS, SIZE)))


def numbers(index: Any) -> Any:
    return index.numbers(one_view(sigma=SIGMA))


def plain(index: Any, estimate: Estimate, word: int = WORD) -> list[float]:
    """Return what `prepare` and `value` say."""
    scratch = np.full((len(estimate.counts), SIZE + 1, SIZE + 1), math.nan)
    index.prepare(estimate, word, numbers(index), scratch)
    return [index.value(k, estimate, word, numbers(index), scratch) for k in range(ARMS)]


def square(triangle: Any) -> Any:
    matrix = np.zeros((SIZE, SIZE))
    matrix[np.triu_indices(SIZE)] = triangle
    return np.triu(matrix, 1).T + matrix


def by_formula(index: Any, estimate: Estimate) -> list[float]:
    """Return the index as the literature writes it."""
    found, c = [], estimate.anticipation
    for k, x in enumerate(estimate.extra.features):
        at = k if len(estimate.counts) > 1 else 0
        ridge = (SIGMA / index.prior) ** 2 if index.random else index.ridge
        matrix = ridge * np.eye(SIZE) + c * square(estimate.extra.outer[at])
        mean = np.linalg.solve(matrix, c * estimate.sums[at])
        if estimate.extra.open_outer is not None:  # surer, and of the same mean
            matrix += square(estimate.extra.open_outer[at])
        if index.random:
            z = [normal_of(word_at(WORD, at * SIZE + i)) for i in range(SIZE)]
            drawn = mean + SIGMA * np.linalg.solve(np.linalg.cholesky(matrix).T, z)
            found.append(float(x @ drawn))
            continue
        inside = SIZE * math.log(1 + estimate.counts[at] * index.length**2 / (ridge * SIZE))
        beta = SIGMA * math.sqrt(inside + 2 * math.log(1 / index.delta))
        beta += math.sqrt(ridge) * index.norm
        found.append(float(x @ mean + index.scale * beta * np.sqrt(x @ np.linalg.solve(matrix, x))))
    return found


@EVERY
def test_both_forms_are_the_formula(index: Any) -> None:
    for anticipation in (1.0, 1.7):
        for pulls in (0, 1, 20):
            estimate = seen(index, pulls=pulls, anticipation=anticipation)
            expected = by_formula(index, estimate)
            assert np.allclose(index.values(estimate, WORD, numbers(index)), expected, atol=1e-12)
            assert np.allclose(plain(index, estimate), expected, atol=1e-12)


@REPEATABLE
@given(st.integers(0, 2**64 - 1), st.integers(0, 99), st.integers(0, 12))
def test_one_hot_features_are_gaussian_thompson(word: int, seed: int, pulls: int) -> None:
    """The arms of `normal-draw`, with the same draws."""
    source = np.random.default_rng(seed)  # noqa: TID251  not a tape
    registers = LinearSums().with_features(ARMS).registers(ARMS)
    values, sums, counts = registers.zeros(), np.zeros(ARMS), np.zeros(ARMS)
    for _ in range(pulls):
        arm, reward = int(source.integers(ARMS)), float(source.normal())
        registers.record(values, arm, reward, np.eye(ARMS)[arm])
        sums[arm] += reward
        counts[arm] += 1.0
    estimate = registers.read(values, time=2.0, num_agents=1.0)
    drawn = LinTS().values(in_context(estimate, np.eye(ARMS)), word, numbers(LinTS()))
    plain = Estimate(sums.tolist(), counts.tolist(), 2.0, 1.0)
    scratch = [0.0] * NormalDraw().scratch_size(ARMS)
    told = NormalDraw().numbers(one_view(sigma=SIGMA))
    NormalDraw.prepare(plain, word, told, scratch)
    expected = [NormalDraw.value(k, plain, word, told, scratch) for k in range(ARMS)]
    assert np.allclose(drawn, expected, rtol=1e-13, atol=1e-14)
    assert np.argmax(drawn) == np.argmax(expected)


def test_a_rotation_changes_no_bound_and_a_permutation_no_model() -> None:
    index = LinUCB()
    source = np.random.default_rng(5)  # noqa: TID251  not a tape
    turn, _ = np.linalg.qr(source.normal(size=(SIZE, SIZE)))
    order = [2, 0, 1]
    rows = [(source.normal(size=SIZE), float(source.normal())) for _ in range(12)]
    context = source.normal(size=(ARMS, SIZE))
    registers = LinearSums().with_features(SIZE).registers(ARMS)
    found, models = [], []
    for change in (np.eye(SIZE), turn, np.eye(SIZE)[:, order]):
        values = registers.zeros()
        for x, reward in rows:
            registers.record(values, 0, reward, x @ change)
        estimate = in_context(registers.read(values, time=2.0, num_agents=1.0), context @ change)
        found.append(index.values(estimate, 0, numbers(index)))
        models.append(np.linalg.solve(factored(estimate, 1.0)[0][0], estimate.sums[0]))
    assert np.allclose(found, found[0])
    assert np.allclose(models[2], models[0][order])


@EVERY
def test_open_pulls_leave_the_mean_and_make_surer(index: Any) -> None:
    estimate = seen(index)
    outer = np.tile([1.0, 0.5, 0.0, 2.0, 0.0, 1.0], (len(estimate.counts), 1))
    outer[1:3] = 0.0  # not every arm has some
    opened = estimate._replace(extra=estimate.extra._replace(open_outer=outer))
    found = index.values(opened, WORD, numbers(index))
    assert np.allclose(found, by_formula(index, opened), atol=1e-12)
    assert not np.allclose(found, by_formula(index, estimate))
    if not index.random:
        surer = found < index.values(estimate, WORD, numbers(index))
        assert surer.tolist() == [bool(outer[k % len(outer)].any()) for k in range(len(found))]


def test_a_matrix_that_no_pulls_made_still_gives_an_index() -> None:
    """Mixing under faults may leave one; the pivot that fails becomes λ."""
    index = LinTS()
    estimate = seen(index)
    broken = np.array([[-3.0, 0.0, 0.0, 1.0, 0.0, 1.0]])
    estimate = estimate._replace(extra=estimate.extra._replace(outer=broken))
    found = index.values(estimate, WORD, numbers(index))
    assert np.isfinite(found).all()
    assert np.allclose(found, plain(index, estimate))
    rows = np.array([[-1.0, 0.0], [0.5, 2.0]])
    cholesky(rows, 2, 0.25)
    assert rows.tolist() == [[0.5, 0.0], [1.0, 1.0]]


def test_many_coefficients_are_drawn_alike() -> None:
    """From 14 on the normals of a draw are one array."""
    registers = LinearSums().with_features(20).registers(2)
    estimate = registers.read(registers.zeros(), time=2.0, num_agents=1.0)
    found = LinTS().values(in_context(estimate, np.eye(2, 20)), WORD, numbers(LinTS()))
    assert np.allclose(found, [normal_of(word_at(WORD, i)) for i in range(2)])


def test_spellings() -> None:
    policy = parse_policy("tree-sums*lin-ts:prior=2,disjoint=true")
    assert policy.takes_context
    assert policy.spelling == "tree-sums*lin-ts:prior=2,disjoint=true"
    assert policy.parts is not None
    assert policy.parts.statistic == LinearSums(disjoint=True)
    assert not parse_policy("tree-ts").takes_context


def test_aggregations_that_send_single_pulls_are_refused() -> None:
    specs: list[Any] = [*(kind() for kind in AGGREGATIONS), CentralTotals()]
    taken = {spec.name for spec in specs if spec.takes_context}
    assert taken >= {
        "local-sums", "tree-sums", "ledger-sums", "flooded-totals", "running-consensus",
        "staged-mixing", "central-totals", "pull-mixing", "neighborhood-sums",
        "flooded-pulls",
    }  # fmt: skip
    text = "staged-mixing:neighbor_pulls=true"
    with pytest.raises(InputError, match=f"features.*{text}"):
        parse_policy(f"{text}*lin-ts")
    assert combine(StagedMixing(), LinUCB()).takes_context


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LinTS(0.0), r"prior.* 0\.0"),
        (
            lambda: LinTS(disjoint=cast("bool", "yes")),
            "disjoint.* 'yes'",
        ),
        (lambda: LinUCB(ridge=-1.0), r"ridge.* -1\.0"),
        (lambda: LinUCB(length=1e200), r"length is 1e\+200.*1e150"),
        (lambda: LinUCB(delta=1.0), r"delta.* 1\.0"),
        (
            lambda: combine(LocalSums(), LinTS()).make_agent(one_view()),
            "features.*LinearBandit",
        ),
    ],
)
def test_bad_settings_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()


def test_few_normals_are_those_of_many() -> None:
    """Few are mixed one by one, and many by numpy, since that is sooner; both are the same bits."""
    few, many = (linear._normals(WORD, size) for size in (FEW_NORMALS - 1, FEW_NORMALS))
    assert few.tolist() == many[:-1].tolist()


def test_models_of_their_own_draw_independent_values() -> None:
    index = LinTS(disjoint=True)
    estimate = seen(index)
    found = index.draws(estimate, numbers(index))
    assert found is not None
    drawn = np.array([index.values(estimate, word, numbers(index)) for word in range(4000)])
    assert found.family == "normal"
    assert abs(drawn.mean(axis=0) - found.first).max() < 4 * found.second.max() / np.sqrt(4000)
    assert np.allclose(drawn.std(axis=0), found.second, rtol=0.06)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(ARMS)).max() < 4.5 / np.sqrt(4000)
    shared = LinTS()
    assert shared.draws(seen(shared), numbers(shared)) is None
