"""Experiment files: the right cells in the right order, and a sentence for everything else."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.problems.kinds import KINDS, make_problem
from coopbandits.sim.experiment import DEFAULTS, read_experiment

ROOT = Path(__file__).parents[2]
SMALLEST = 'policies = ["dducb"]\ngraphs = ["cycle:4"]\n'

FULL = """
horizon = 500
runs = 3
seeds = [4, 2]
policies = ["independent-ucb", "dducb:eta=3"]
graphs = ["star:5", "cycle:6"]
weights = "metropolis"
shuffle_arms = true

[problems.second]
kind = "gaussian"
means = "1,0.5x2"
sigma = 2.0

[problems.first]
kind = "bernoulli"
means = [0.9, 0.1]
"""

Read = Callable[..., list[cb.Cell]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read the cells of a text, with overrides."""

    def run(text: str, *overrides: str) -> list[cb.Cell]:
        (tmp_path / "e.toml").write_text(text)
        return read_experiment(tmp_path / "e.toml", overrides)

    return run


def test_a_full_file(read: Read) -> None:
    cells = read(FULL)
    problems = [cb.GaussianBandit([1.0, 0.5, 0.5], 2.0), cb.BernoulliBandit([0.9, 0.1])]
    assert [
        (cell.problem, cell.network.description, cell.seed, cell.policy.spelling) for cell in cells
    ] == [
        (problem, graph, seed, policy)
        for problem in problems  # tables in the order of the file
        for graph in ("star:5", "cycle:6")
        for seed in (4, 2)
        for policy in ("independent-ucb", "dducb:eta=3")
    ]
    assert {
        (cell.horizon, cell.runs, cell.network.weights, cell.shuffle_arms) for cell in cells
    } == {(500, 3, "metropolis", True)}


def test_defaults(read: Read) -> None:
    (cell,) = read(SMALLEST)
    assert cell.problem == cb.GaussianBandit([1.0] + [0.8] * 16, 1.0)
    assert (cell.horizon, cell.runs, cell.seed) == (10_000, 10, 0)
    assert cell.network.weights == "max-degree"
    assert cell.shuffle_arms is False
    assert not cell.faults
    assert cell.clocks is None


def test_faults_and_clocks(read: Read) -> None:
    text = SMALLEST + "faults = ['none', 'loss=0.3']\nclocks = 'poisson:ratio=2'"
    cells = read(text)
    assert [cell.faults.spelling for cell in cells] == ["none", "loss=0.3"]
    assert {cell.clocks and cell.clocks.spelling for cell in cells} == {"poisson:ratio=2"}
    (one,) = read(SMALLEST, "faults=loss=0.2,churn=9..5", "clocks=none")
    assert (one.faults.spelling, one.clocks) == ("loss=0.2,churn=9..5", None)


def test_a_rule_to_stop_by(read: Read) -> None:
    (never,) = read(SMALLEST)
    assert never.stop is None
    assert "stop" not in never.settings
    (cell,) = read(SMALLEST + "stop = 0.9\n")
    assert cell.stop == cb.Stop(0.9)
    assert cell.settings["stop"] == "0.9"
    assert cell.setup.stop == cell.stop
    assert cell.id != never.id
    (text,) = read(SMALLEST, "stop=0.9,within=0.1")
    assert text.stop == cb.Stop(0.9, 0.1)
    assert read(SMALLEST + "stop = 0.9\n", "stop=none")[0].id == never.id


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("1.5", r"confidence.* 1\.5.*0 and 1"),
        ("true", "confidence is True"),
        ("'soon'", r"stop.* 'soon'.*0\.95"),
        ("'0.9,after=3'", r"stop.* '0\.9,after=3'"),
        ("[0.9]", r"confidence is \[0.9\]"),
    ],
)
def test_wrong_rules_to_stop_by(read: Read, value: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        read(SMALLEST + f"stop = {value}\n")


LINEAR = 'policies = ["tree-sums*lin-ts"]\ngraphs = ["cycle:4"]\n[problems.p]\nkind = "linear"\n'


def test_linear_problems(read: Read) -> None:
    (cell,) = read(
        LINEAR + 'theta = "1,0"\nnum_arms = 3\nfeatures = [[1, 0], [0.5, 1]]\nsigma = 0.5'
    )
    assert cell.problem == cb.LinearBandit([1, 0], 3, features=[[1.0, 0.0], [0.5, 1.0]], sigma=0.5)
    (moves,) = read(LINEAR + "theta = [1, 0]\ndrift = {steps = {100 = [0, 1]}}")
    assert moves.problem == cb.drift(cb.LinearBandit([1, 0]), {100: [0, 1]})


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("", "problem 'p'.*theta"),
        ('theta = "one"', "means 'one' cannot be read"),
        ("theta = [1]\nmodel = 1", "problem 'p' 'model'.*features"),
        ('theta = [1]\nfeatures = "cube"', "unknown kind of features 'cube'"),
        ("theta = [1]\nfeatures = [[1, 2]]", r"features.*\(1, 2\)"),
        ("theta = [1]\nnum_arms = 0", "num_arms is 0"),
        ("theta = [1]\nsigma = -1", "sigma"),
        ("theta = [1]\ndrift = 'switch_every=9'", "switch_every"),
    ],
)
def test_wrong_keys_of_linear_problems(read: Read, keys: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        read(LINEAR + keys)


def test_the_example_can_be_read() -> None:
    file = ROOT / "examples" / "experiment.toml"
    assert len(read_experiment(file)) > 1
    lines = [line.lstrip("# ") for line in file.read_text().splitlines()]
    for key in DEFAULTS:
        assert any(line.startswith((f"{key} =", f"[{key}.")) for line in lines), f"{key} is missing"


def test_the_page_on_sweeps_shows_a_file_that_can_be_read(read: Read) -> None:
    page = (ROOT / "docs" / "sweeps.md").read_text()
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(read(shown)) == 2 * 3 * 2 * 2
    (line,) = re.findall(r"^coopbandits run experiment.toml .*--set.*$", page, re.MULTILINE)
    words = shlex.split(line)
    overrides = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    cells = read(shown, *overrides)
    assert {cell.horizon for cell in cells} == {500}
    assert cells[0].problem.num_arms == 2
    pages = page + (ROOT / "docs" / "problems.md").read_text()
    for name in [*DEFAULTS, *KINDS]:
        assert re.search(rf'`\[?"?{name}[".`]', pages), f"{name} is not described"


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"kind": "gaussian", "means": [1, 0.5]}, cb.GaussianBandit([1.0, 0.5])),
        ({"kind": "gaussian", "means": "1,0x2", "sigma": 2}, cb.GaussianBandit([1, 0, 0], 2.0)),
        ({"kind": "bernoulli", "means": "0.9,0.1x2"}, cb.BernoulliBandit([0.9, 0.1, 0.1])),
        ({"kind": "beta", "a": [2, 1], "b": [1, 3]}, cb.BetaBandit([2, 1], [1, 3])),
    ],
    ids=lambda given: str(given.get("kind", "")) if isinstance(given, dict) else "",
)
def test_kinds(table: dict[str, object], problem: cb.Problem) -> None:
    before = copy.deepcopy(table)
    assert make_problem("mine", table) == problem
    assert table == before


@pytest.mark.parametrize(("more", "sigma"), [("", 2.0), ("sigma = 0.5", 0.5)])
def test_logged_arms(read: Read, tmp_path: Path, more: str, sigma: float) -> None:
    log = tmp_path / "log.csv"
    log.write_text("left,right\n1,0\n3,4\n")
    table = f"[problems.log]\nkind = 'logged'\nfile = '{log}'\n{more}"
    (cell,) = read(SMALLEST + table)
    assert isinstance(cell.problem, cb.LoggedBandit)
    assert cell.problem.means.tolist() == [2.0, 2.0]
    assert cell.problem.sigma == sigma


def test_a_file_replaces_the_default_problem(read: Read) -> None:
    (cell,) = read(SMALLEST + "[problems.mine]\nkind = 'bernoulli'\nmeans = [0.5]")
    assert cell.problem == cb.BernoulliBandit([0.5])


def with_problem(table: str) -> str:
    return f"{SMALLEST}[problems.mine]\n{table}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("horizon = ", r"e\.toml.*Invalid value"),
        ("horizon = 1\nhorizon = 2", r"e\.toml.*Cannot overwrite"),
        ("graphs = ['cycle:4']", r"e\.toml.*policies"),
        ("policies = ['dducb']", r"e\.toml.*graphs"),
        (SMALLEST + "horizn = 5", "'horizn'.*'horizon'"),
        (SMALLEST + "[problem.mine]\nkind = 'beta'", "'problem'.*'problems'"),
        ("policies = []\ngraphs = ['cycle:4']", "no policies"),
        ("graphs = []\npolicies = ['dducb']", "no graphs"),
        (SMALLEST + "seeds = []", "no seeds"),
        (SMALLEST + "problems = {}", "no problems"),
        ("policies = 'dducb'\ngraphs = ['cycle:4']", "policies.* 'dducb'.*list"),
        ("policies = ['dducb']\ngraphs = 4", r"graphs.* 4\b.*graphs = \[4\]"),
        ("policies = ['dducb']\ngraphs = [4]", r"graphs.* 4\b.*quotes"),
        ("policies = [1]\ngraphs = ['cycle:4']", r"policies.* 1\b.*quotes"),
        ("policies = ['ddcub']\ngraphs = ['cycle:4']", "policy 'ddcub'.*'dducb'"),
        ("policies = ['dducb']\ngraphs = ['cylce:4']", "graph 'cylce'.*'cycle'"),
        (SMALLEST + "weights = 'metropols'", "weights 'metropols'.*'metropolis'"),
        (SMALLEST + "weights = 3", "mixing matrix has shape"),
        (SMALLEST + "shuffle_arms = 1", r"shuffle_arms.* 1\b"),
        (SMALLEST + "faults = ['los=1']", "fault 'los'.*'loss'"),
        (SMALLEST + "faults = 0.3", r"faults.* 0\.3.*faults = \[0\.3\]"),
        (SMALLEST + "faults = []", "no faults"),
        (SMALLEST + "clocks = 'poison'", "clocks 'poison'.*'poisson'"),
        (SMALLEST + "clocks = 3", r"clocks.* 3\b.*quotes"),
        (SMALLEST + "horizon = 0", r"horizon.* 0\b.* 1\b"),
        (SMALLEST + "horizon = 10.5", r"horizon.* 10\.5"),
        (SMALLEST + "horizon = '10'", "horizon.* '10'"),
        (SMALLEST + "horizon = true", "horizon.* True"),
        (SMALLEST + "runs = 0", r"runs.* 0\b.* 1\b"),
        (SMALLEST + "seeds = 3", r"seeds.* 3\b.*seeds = \[3\]"),
        (SMALLEST + "seeds = [0, -1]", r"seeds.* -1\b.* 0\b"),
        (SMALLEST + "seeds = [0.5]", r"seeds.* 0\.5"),
        (SMALLEST + "seeds = [false]", "seeds.* False"),
        (SMALLEST + "problems = 3", r"problems.* 3\b.*\[problems\.mine\]"),
        (SMALLEST + "[problems]\nmine = 3", "'mine'.*kind.*gaussian"),
        (with_problem("means = [1, 0]"), "'mine'.*kind.*gaussian, ber"),
        (with_problem("kind = 'guassian'"), "'mine' 'guassian'.*'gaussian'"),
        (with_problem("kind = 'gaussian'"), "'mine'.*gaussian.*means"),
        (with_problem("kind = 'beta'\na = [1]"), r"'mine'.*beta.*\bb\b"),
        (
            with_problem("kind = 'gaussian'\nmeans = [1]\nsigme = 1"),
            "'mine' 'sigme'.*means, sigma.*'sigma'",
        ),
        (
            with_problem("kind = 'bernoulli'\nmeans = [0.5]\nsigma = 1"),
            "'mine' 'sigma'.*means",
        ),
        (with_problem("kind = 'gaussian'\nmeans = '1,x'"), "'x'.*number"),
        (with_problem("kind = 'gaussian'\nmeans = 1"), "means has shape"),
        (with_problem("kind = 'bernoulli'\nmeans = [2]"), "means"),
        (with_problem("kind = 'logged'\nfile = 'nowhere.csv'"), r"'nowhere\.csv'"),
    ],
)
def test_bad_files(read: Read, text: str, message: str) -> None:
    with pytest.raises(cb.InputError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("kind = ['gaussian']\nmeans = [1]", "'mine'"),
        ("kind = 'logged'\nfile = 3", "file"),
    ],
)
def test_values_of_other_types(read: Read, table: str, message: str) -> None:
    with pytest.raises(cb.InputError, match=message):
        read(with_problem(table))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(cb.InputError, match=r"nowhere\.toml.*No such file"):
        read_experiment(tmp_path / "nowhere.toml")
    with pytest.raises(cb.InputError, match="Is a directory"):
        read_experiment(tmp_path)


def test_a_file_from_an_editor_that_marks_utf_8(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(SMALLEST, encoding="utf-8-sig")
    assert len(read_experiment(tmp_path / "e.toml")) == 1


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(cb.InputError, match=r"e\.toml.*TOML"):
        read_experiment(tmp_path / "e.toml")


def test_overrides(read: Read) -> None:
    cells = read(
        FULL,
        "horizon=70",
        " runs = 1 ",
        "seeds=[7]",
        'policies=["dducb"]',
        "weights=max-degree",  # a word needs no quotes
        "problems.second.means=1,0.25",  # nor does a text with a comma
        "problems.second.sigma=0.5",
    )
    gaussian, bernoulli = cb.GaussianBandit([1.0, 0.25], 0.5), cb.BernoulliBandit([0.9, 0.1])
    assert [cell.problem for cell in cells] == [gaussian, gaussian, bernoulli, bernoulli]
    for cell in cells:
        assert (cell.horizon, cell.runs, cell.seed) == (70, 1, 7)
        assert (cell.policy.spelling, cell.network.weights) == ("dducb", "max-degree")


def test_the_last_override_counts(read: Read) -> None:
    (cell,) = read(SMALLEST, "horizon=70", "horizon=80")
    assert cell.horizon == 80


def test_overrides_give_what_a_file_lacks(read: Read) -> None:
    (cell,) = read("", 'graphs=["cycle:5"]', 'policies=["dducb:epsilon=1/30"]')
    assert (cell.network.num_agents, cell.policy.spelling) == (5, cb.DDUCB(epsilon=1 / 30).spelling)


def test_defaults_are_never_changed(read: Read) -> None:
    before = copy.deepcopy(DEFAULTS)
    (cell,) = read(SMALLEST, "problems.paper.means=1,0", "problems.paper.sigma=3", "seeds=[5]")
    assert np.array_equal(cell.problem.means, [1.0, 0.0])
    assert before == DEFAULTS
    assert read(SMALLEST)[0].problem.num_arms == 17


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("horizon", "--set.*horizon=500.*'horizon'"),
        ("=5", "--set.*horizon=500.*'=5'"),
        ("horizn=5", "'horizn'.*'horizon'"),
        ("horizon=", "horizon.* ''"),
        ("horizon=many", "horizon.* 'many'"),
        ("horizon.most=5", r"horizon\.most=5.*'horizon'"),
        ("problems.other.sigma=1", "'other'"),
        ("problems.paper.sigme=1", "'paper' 'sigme'.*'sigma'"),
        ("policies=dducb", r"policies.* 'dducb'.*\['dducb'\]"),
        ("seeds=[]", "no seeds"),
    ],
)
def test_bad_overrides(read: Read, override: str, message: str) -> None:
    with pytest.raises(cb.InputError, match=message):
        read(SMALLEST, override)


def test_every_kind_names_its_keys() -> None:
    for kind, recipe in KINDS.items():
        assert recipe.needed, kind
        assert not set(recipe.needed) & set(recipe.optional), kind
