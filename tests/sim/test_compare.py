"""From cells to comparisons: what shares its tapes stands side by side, the rest stays apart."""

from __future__ import annotations

import csv
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.errors import InputError
from coopbandits.dashboard.stored import StoredRun
from coopbandits.results.intervals import mean_interval
from coopbandits.sim import compare, merge
from coopbandits.sim.ledger import run_cell

DDUCB, ALONE = cb.DDUCB(), cb.IndependentUCB()
PROBLEM = cb.GaussianBandit([1.0, 0.5, 0.2])
CYCLE, STAR = cb.Network.from_spec("cycle:4"), cb.Network.from_spec("star:4")

Played = list[tuple[cb.Cell, cb.Result]]


def played(
    problems: tuple[cb.Problem, ...] = (PROBLEM,),
    networks: tuple[cb.Network, ...] = (CYCLE,),
    seeds: tuple[int, ...] = (0,),
    policies: tuple[cb.Policy, ...] = (DDUCB, ALONE),
) -> Played:
    cells = [
        cb.Cell(problem, network, policy, 40, 3, seed)
        for problem, network, seed, policy in product(problems, networks, seeds, policies)
    ]
    return [(cell, run_cell(cell)) for cell in cells]


def test_cells_that_differ_in_policy_are_joined() -> None:
    ((name, joined),) = compare(played()).items()
    together = cb.simulate(PROBLEM, CYCLE, [DDUCB, ALONE], 40, 3, 0, progress=False)
    assert name == "cycle:4"
    assert joined.dataset.identical(together.dataset)
    assert joined.meta["settings"] == together.meta["settings"]
    assert joined.meta["engines"] == ["cpu", "cpu"]
    assert str(joined.summary()) == str(together.summary())
    (difference,) = joined.summary().differences
    assert (difference.first, difference.second) == ("dducb", "independent-ucb")
    assert not np.isnan(difference.p_value)


@pytest.mark.parametrize("keep", ["watch", "arms"])
def test_what_is_kept_is_joined_in_the_form_of_one_simulation(keep: str) -> None:
    def keeping(*policies: cb.Policy) -> cb.Result:
        return cb.simulate(PROBLEM, CYCLE, policies, 40, 3, 0, progress=False, keep=keep)

    joined, together = merge([keeping(DDUCB), keeping(ALONE)]), keeping(DDUCB, ALONE)
    assert joined.dataset.identical(together.dataset)
    assert list(joined.dataset.data_vars) == list(together.dataset.data_vars)
    if keep == "watch":
        assert StoredRun(joined).scene() == StoredRun(together).scene()


def test_the_order_of_policies_is_the_order_given() -> None:
    (joined,) = compare(played(policies=(ALONE, DDUCB))).values()
    assert joined.policies == ["independent-ucb", "dducb"]


def test_a_joined_result_can_be_saved(tmp_path_factory: pytest.TempPathFactory) -> None:
    (joined,) = compare(played()).values()
    folder = joined.save(tmp_path_factory.mktemp("joined"))
    assert cb.Result.load(folder).dataset.identical(joined.dataset)


def test_wall_times_are_added_up() -> None:
    results = [result for _, result in played()]
    for result, seconds in zip(results, (1.5, 2.25), strict=True):
        result.meta["wall_seconds"] = seconds
    before = [dict(result.meta) for result in results]
    assert merge(results).meta["wall_seconds"] == 3.75
    assert [result.meta for result in results] == before


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"seeds": (0, 7)}, ["cycle:4, seed 0", "cycle:4, seed 7"]),
        ({"networks": (STAR, CYCLE)}, ["star:4", "cycle:4"]),
        (
            {"problems": (PROBLEM, cb.BernoulliBandit([0.5]))},
            [
                "cycle:4, GaussianBandit(means=[1.0, 0.5, 0.2], sigma=1.0)",
                "cycle:4, BernoulliBandit(means=[0.5], sigma=0.5)",
            ],
        ),
        (
            {"networks": (STAR, CYCLE), "seeds": (1, 2)},
            ["star:4, seed 1", "star:4, seed 2", "cycle:4, seed 1", "cycle:4, seed 2"],
        ),
    ],
)
def test_other_cells_stay_apart(arguments: dict[str, tuple[object, ...]], names: list[str]) -> None:
    cells = played(**arguments)  # type: ignore[arg-type]  # mixed
    joined = compare(cells)
    assert list(joined) == names
    for (first, one), (second, two), result in zip(
        cells[::2], cells[1::2], joined.values(), strict=True
    ):
        assert result.policies == [first.policy.spelling, second.policy.spelling]
        for single in (one, two):
            (policy,) = single.policies
            assert result.dataset.sel(policy=[policy]).identical(single.dataset)


def test_groups_that_read_alike_get_different_names() -> None:
    metropolis = cb.Network.from_spec("star:4", weights="metropolis")
    joined = compare(played(networks=(STAR, metropolis, CYCLE)))
    assert len(joined) == 3
    alike = [name for name in joined if name.startswith("star:4, ")]
    assert len(alike) == 2
    assert "cycle:4" in joined
    others = compare(played(networks=(CYCLE, metropolis, STAR)))
    assert set(alike) < set(others), "the same names whatever else there is, in whatever order"


def test_a_missing_cell_leaves_the_others() -> None:
    joined = compare(played(networks=(CYCLE, STAR))[1:])
    assert [result.policies for result in joined.values()] == [
        ["independent-ucb"],
        ["dducb", "independent-ucb"],
    ]


def test_nothing_to_compare() -> None:
    assert compare([]) == {}


@pytest.mark.parametrize(
    "change",
    [{"horizon": 41}, {"runs": 2}, {"seed": 1}, {"network": STAR}, {"problem": 2}, {"rounds": 3}],
    ids=str,
)
def test_merge_refuses_different_settings(change: dict[str, object]) -> None:
    settings: dict[str, object] = {"horizon": 40, "runs": 3, "seed": 0, "network": CYCLE}
    problem = cb.GaussianBandit([1.0, 0.5, 0.1]) if "problem" in change else PROBLEM
    change = {key: value for key, value in change.items() if key != "problem"}
    first = cb.simulate(PROBLEM, policies=DDUCB, progress=False, **settings)  # type: ignore[arg-type]  # mixed
    second = cb.simulate(problem, policies=ALONE, progress=False, **(settings | change))  # type: ignore[arg-type]  # mixed
    with pytest.raises(cb.InputError, match="different settings"):
        merge([first, second])


def test_what_is_no_result_is_refused() -> None:
    odd: list[object] = [1, (1, 2), (1,), "ab"]
    for one in odd:
        with pytest.raises(cb.InputError, match=f"{re.escape(repr(one))}.*cell.*result"):
            compare([one])  # type: ignore[list-item]  # what is to be refused
        with pytest.raises(cb.InputError, match=f"{re.escape(repr(one))}.*simulate"):
            merge([one])  # type: ignore[list-item]  # what is to be refused


def test_names_tell_faults_apart() -> None:
    cells = [
        cb.Cell(PROBLEM, CYCLE, policy, 10, 1, 0, faults=cb.parse_faults(text))
        for text in ("none", "loss=0.5")
        for policy in (ALONE, cb.IndependentUCB(constant=4.0))
    ]
    found = compare([(cell, run_cell(cell)) for cell in cells])
    assert list(found) == ["cycle:4, faults none", "cycle:4, faults loss=0.5"]
    assert found["cycle:4, faults loss=0.5"].policies == [
        "independent-ucb",
        "independent-ucb:constant=4",
    ]


CELL_FRAMES_PROBLEM = cb.GaussianBandit([1.0, 0.5])
NETWORK = cb.Network.from_spec("path:3")


@pytest.fixture(scope="module")
def done() -> cb.Sweep:
    """Two policies, two seeds, three runs each."""
    cells = [
        cb.Cell(CELL_FRAMES_PROBLEM, NETWORK, policy, 20, 3, seed)
        for seed in (4, 5)
        for policy in (cb.IndependentUCB(), cb.CentralUCB())
    ]
    return cb.Sweep([(cell, run_cell(cell)) for cell in cells])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_one_file_for_the_whole_sweep(done: cb.Sweep, tmp_path: Path) -> None:
    rows = read(done.to_csv(tmp_path / "new" / "summary.csv"))
    assert [(row["policy"], row["seed"], row["runs"]) for row in rows] == [
        ("independent-ucb", "4", "3"), ("central-ucb", "4", "3"),
        ("independent-ucb", "5", "3"), ("central-ucb", "5", "3"),
    ]  # fmt: skip
    final = done.results[2][1].regret.isel(policy=0, round=-1).values
    assert float(rows[2]["regret"]) == final.mean()
    assert (float(rows[2]["low"]), float(rows[2]["high"])) == mean_interval(final)
    assert {row["graph"] for row in rows} == {"path:3"}


def test_seeds_pooled_where_asked(done: cb.Sweep, tmp_path: Path) -> None:
    rows = read(done.to_csv(tmp_path / "pooled.csv", pool_seeds=True))
    assert [(row["policy"], row["seeds"], row["runs"]) for row in rows] == [
        ("independent-ucb", "2", "6"), ("central-ucb", "2", "6")
    ]  # fmt: skip
    assert "seed" not in rows[0]
    final = np.concatenate([done.results[i][1].regret.values[0, :, -1] for i in (0, 2)])
    assert float(rows[0]["regret"]) == final.mean()
    assert (float(rows[0]["low"]), float(rows[0]["high"])) == mean_interval(final)


def test_every_round_of_every_cell(done: cb.Sweep) -> None:
    frame = done.to_dataframe()
    assert list(frame.columns[:9]) == [
        "problem", "graph", "weights", "faults", "clocks", "horizon", "policy", "seed", "run"
    ]  # fmt: skip
    last = frame[frame["round"] == 20]
    assert len(last) == 2 * 2 * 3
    assert last["regret"].mean() == pytest.approx(
        np.mean([result.regret.values[..., -1].mean() for _, result in done.results])
    )


def test_nothing_finished() -> None:
    assert cb.Sweep().to_dataframe().empty
    assert cb.Sweep().summary_frame(pool_seeds=True).empty


def test_arms_are_named_as_today(tmp_path: Path) -> None:
    """Names are no part of what a cell is, so a ledger finds it under old ones."""
    cell = cb.Cell(CELL_FRAMES_PROBLEM, NETWORK, cb.IndependentUCB(), 20)
    named = cb.Cell(CELL_FRAMES_PROBLEM.named(["left", "right"]), NETWORK, cb.IndependentUCB(), 20)
    assert cell.id == named.id
    first = cb.sweep([cell], tmp_path, workers=1, progress=False)
    again = cb.sweep([named], tmp_path, workers=1, progress=False)
    assert first.results[0][1].pulls["arm"].values.tolist() == [0, 1]
    assert again.results[0][1].pulls["arm"].values.tolist() == ["left", "right"]
    with pytest.raises(InputError, match="name their arms"):
        merge(
            [
                again.results[0][1],
                run_cell(cb.Cell(CELL_FRAMES_PROBLEM, NETWORK, cb.CentralUCB(), 20)),
            ]
        )
