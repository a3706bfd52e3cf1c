"""Users' own policies, problems, faults, graphs and clocks, by name, wherever ours are named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.network import parse_graph
from coopbandits.problems import make_problem

SOURCE = """
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np

import coopbandits as cb
from coopbandits.network.faults import AWAY, Kind, draws, place_keys
from coopbandits.problems.rewards import LOCATION_SCALE, RewardForm
from coopbandits.sim.clocks import Clocks


@dataclass(frozen=True)
class MyPolicy(cb.Policy):
    constant: float = 4.0
    name: ClassVar[str] = "mine"

    def make_agent(self, view):
        return cb.IndependentUCB(self.constant).make_agent(view)


class Plain(cb.Policy):
    name = "plain"

    def make_agent(self, view):
        return cb.IndependentUCB().make_agent(view)


@dataclass(frozen=True)
class Needy(MyPolicy):
    step: int = 0

    def __post_init__(self):
        if self.step < 0:
            raise ValueError("step must not\\nbe negative")


@dataclass
class Thawed(Plain):
    constant: float = 4.0


class MyProblem(cb.Problem):
    def __init__(self, gap, arms=3, means=None):
        means = np.append(gap, np.zeros(arms - 1)) if means is None else np.array(means)
        table = np.column_stack([means, np.ones(means.size)])
        super().__init__(means, 1.0, RewardForm(LOCATION_SCALE, table))

    def describe(self):
        return {"problem": "own", "means": self.means.tolist()}


def no_problem():
    return 3


def two_arms(gap):
    return cb.GaussianBandit([gap, 0.0])


@dataclass(frozen=True)
class MyLoss(Kind):
    share: float
    every: int = 1
    name: ClassVar[str] = "my-loss"
    form: ClassVar[str] = "{share}[@{every}]"
    touches: ClassVar[str] = "messages"

    def begin(self, links, key):
        keys = place_keys(key, links.senders.size)
        return lambda rounds: draws(keys, rounds // self.every) < self.share


@dataclass(frozen=True)
class AnyTimeLoss(MyLoss):
    name: ClassVar[str] = "any-time-loss"

    @property
    def loss_without_rounds(self):
        return self.share


@dataclass(frozen=True)
class Nap(Kind):
    share: float
    name: ClassVar[str] = "nap"
    form: ClassVar[str] = "{share}"
    touches: ClassVar[str] = "agents"

    def begin(self, links, key):
        keys = place_keys(key, links.network.num_agents)
        return lambda rounds: np.where(draws(keys, rounds) < self.share, AWAY, 0).astype(np.uint8)


@dataclass(frozen=True)
class Late(Kind):
    rounds: int
    told: int = 2
    name: ClassVar[str] = "late"
    form: ClassVar[str] = "{rounds}[:{told}]"
    touches: ClassVar[str] = "delay"

    @property
    def longest_delay(self):
        return self.told

    def begin(self, links, key):
        return lambda rounds: np.full((rounds.size, links.senders.size), self.rounds)


@dataclass(frozen=True)
class Misshapen(MyLoss):
    def begin(self, links, key):
        return lambda rounds: np.zeros(3, dtype=bool)


@dataclass(frozen=True)
class Formless(Kind):
    name: ClassVar[str] = "formless"

    def begin(self, links, key):
        return None


@dataclass(frozen=True)
class Lost(MyLoss):
    touches: ClassVar[str] = "mesages"


def wheel(size, seed=0):
    return nx.wheel_graph(size)


def chain(size, extra=0):
    return [(i, i + 1) for i in range(size + extra - 1)]


def drawn(size, chance, seed):
    return nx.gnp_random_graph(size, chance, seed=seed)


def broken(size):
    raise ValueError("no such graph")


@dataclass(frozen=True)
class MyClocks(Clocks):
    name: ClassVar[str] = "mine"

    def gap(self, drawn, *, first):
        return 2.0 * drawn
"""

ENTRY_POINTS = """
[coopbandits.policies]
offered-policy = own_things:MyPolicy
[coopbandits.problems]
offered-problem = own_things:MyProblem
[coopbandits.faults]
offered-fault = own_things:MyLoss
[coopbandits.graphs]
offered-wheel = own_things:wheel
[coopbandits.clocks]
offered-clocks = own_things:MyClocks
"""

Mine = Any
ROUNDS: dict[str, Any] = {"horizon": 12, "runs": 2, "progress": False}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("my_module", "own_things"):
        sys.modules.pop(name, None)


@pytest.fixture
def mine(folder: Path) -> Mine:
    """A user's own file, imported."""
    (folder / "my_module.py").write_text(SOURCE)
    return __import__("my_module")


@pytest.fixture
def package(folder: Path) -> Mine:
    """The same as an installed package with entry points."""
    (folder / "own_things.py").write_text(SOURCE)
    info = folder / "own_things-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-things\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return __import__("own_things")


def play(problem: Any = None, graph: str = "cycle:5", policy: Any = None, **more: Any) -> cb.Result:
    network = cb.Network.from_spec(graph)
    policy = policy or cb.parse_policy("independent-ucb")
    return cb.simulate(problem or cb.GaussianBandit([1.0, 0.0]), network, policy, **ROUNDS, **more)


# Policies


def test_policies(mine: Mine) -> None:
    for policy, spelling in [
        (mine.MyPolicy(), "my_module:MyPolicy"),
        (mine.MyPolicy(2.0), "my_module:MyPolicy:constant=2"),
        (mine.Needy(2.5, 3), "my_module:Needy:constant=2.5,step=3"),
    ]:
        assert policy.spelling == spelling
        assert cb.parse_policy(spelling) == policy
    assert type(cb.parse_policy("my_module:Plain")) is mine.Plain
    result = play(policy=[cb.parse_policy("my_module:MyPolicy:constant=2"), cb.IndependentUCB(2.0)])
    assert result.policies == ["my_module:MyPolicy:constant=2", "independent-ucb:constant=2"]
    assert np.array_equal(*result.regret.values)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my_module:MyPolcy", "unknown policy in my_module 'MyPolcy'; .* did you mean 'MyPolicy'"),
        (
            "my_module:MyPolicy:contsant=2",
            "setting of policy my_module:MyPolicy 'contsant'; .*'con",
        ),
        ("my_module:Plain:constant=2", "policy my_module:Plain has no settings; leave out 'const"),
        ("my_module:MyLoss", "my_module:MyLoss is <class .*; it must be a class derived from coop"),
        ("my_module:Thawed", "my_module:Thawed is .*; it must be .* fields of a frozen dataclass"),
        (
            "my_module:Needy:step=-1",
            "^policy my_module:Needy cannot be made of these settings: ValueError: step must not "
            "be negative$",
        ),
    ],
)
def test_policies_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.parse_policy(text)


def test_a_class_of_the_script_keeps_its_name() -> None:
    source = f"{SOURCE}\nprint(MyPolicy(2.0).spelling, Needy().spelling)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("mine:constant=2 Needy\n", "")


# Problems


def test_problems(mine: Mine) -> None:
    expected = mine.MyProblem(0.5, arms=2)
    table = {"kind": "my_module:MyProblem", "gap": 0.5, "arms": 2}
    assert make_problem("mine", table) == expected
    assert cb.parse_problem("my_module:MyProblem:gap=0.5,arms=2") == expected
    assert cb.parse_problem("my_module:MyProblem: means = 1, 0x2 ,gap=0") == mine.MyProblem(
        0, means=[1.0, 0.0, 0.0]
    )
    assert cb.parse_problem("my_module:two_arms:gap=0.5") == cb.GaussianBandit([0.5, 0.0])
    same = [play(problem) for problem in (expected, cb.GaussianBandit([0.5, 0.0]))]
    assert same[0].regret.equals(same[1].regret)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gaussian:means=1,0.8x2", cb.GaussianBandit([1.0, 0.8, 0.8])),
        ("gaussian:means=1, 0.8x2, sigma=2", cb.GaussianBandit([1.0, 0.8, 0.8], 2.0)),
        ("gaussian:sigma=1/2,means=-1,1e-1", cb.GaussianBandit([-1.0, 0.1], 0.5)),
        ("bernoulli:means=0.5x1", cb.BernoulliBandit([0.5])),
        ("beta:a=2,1,b=1,3", cb.BetaBandit([2, 1], [1, 3])),
    ],
)
def test_spelled_problems(text: str, problem: cb.Problem) -> None:
    assert cb.parse_problem(text) == problem


def test_a_spelled_log(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("left,right\n1,0\n3,4\n")
    problem = cb.parse_problem(f"logged:file={tmp_path}/log.csv,sigma=0.5")
    assert (problem.means.tolist(), problem.sigma) == ([2.0, 2.0], 0.5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gausian:means=1", "unknown problem 'gausian'; known are .*; did you mean 'gaussian'"),
        ("gaussian", "^problem gaussian has no means; give it$"),
        ("gaussian:means", "setting 'means' of problem gaussian has no value; write name=value"),
        ("gaussian:means=1,means=2", "setting means of problem gaussian is given twice"),
        ("gaussian:means=1,0,sigme=2", "unknown key of problem gaussian 'sigme'; .* 'sigma'"),
        ("gaussian:means=1,x", "part 'x' is no number"),
        ("bernoulli:means=0.5", "means has shape"),
        ("my_module:MyProblem", "^problem my_module:MyProblem has no gap; give it$"),
        ("my_module:MyProblem:gpa=1", "unknown key of problem my_module:MyProblem 'gpa'; .* 'gap'"),
        ("my_module:two_arms:gap=wide", "means .* cannot be read as numbers"),
        (
            "my_module:MyProblem:gap=1,arms=0.5",
            "^problem my_module:MyProblem cannot be made of .*: ",
        ),
        ("my_module:no_problem", "problem my_module:no_problem is 3; it must be a class derived"),
        ("my_module:no_problem:k=1", "problem my_module:no_problem takes no keys; leave out 'k'"),
        ("my_module:MyPolicy", "my_module:MyPolicy is .*; it must be a class derived from coopb"),
        ("my_module:MyProblme", "unknown problem in my_module 'MyProblme'; .* 'MyProblem'"),
    ],
)
def test_problems_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.parse_problem(text)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"kind": "my_module:MyProblem"}, "'own' of kind my_module:MyProblem has no gap; give it"),
        ({"kind": "my_module:MyProblem", "gpa": 1}, "unknown key of problem 'own' 'gpa'; .*'gap'"),
        (
            {"kind": "gaussian:means=1"},
            "kind of problem 'own' is 'gaussian:means=1'; give 'means=1",
        ),
        ({"kind": "no_module:X"}, "there is no module no_module for problem no_module:X; its file"),
    ],
)
def test_tables_refused(mine: Mine, table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        make_problem("own", table)


# Faults


def test_faults(mine: Mine) -> None:
    faults = cb.parse_faults("my_module:MyLoss=0.3,sleep=0.1 , my_module:Nap=1/4,loss=0.2")
    assert faults == cb.Faults(mine.MyLoss(0.3), cb.Sleep(0.1), mine.Nap(0.25), cb.Loss(0.2))
    assert faults.spelling.startswith("loss=0.2,sleep=0.1,my_module:")
    assert cb.parse_faults(faults.spelling) == faults
    spelled = "my_module:MyLoss=0.3@5,my_module:MyLoss=0.3"
    assert cb.parse_faults(spelled).spelling == spelled


def test_our_chance_is_not_changed_by_own_faults(mine: Mine) -> None:
    network = cb.Network.from_spec("cycle:9")

    def fates(text: str) -> Any:
        return cb.parse_faults(text).schedule(network, seed=3, run=1).read(50).fate

    ours, own = fates("loss=0.3"), fates("my_module:MyLoss=0.3")
    assert ours.sum() == -277  # known before there were own kinds
    assert (ours != own).any()
    assert (fates("loss=0.3,my_module:MyLoss=0.3") == np.minimum(ours, own)).all()
    assert (own == fates("my_module:MyLoss=0.3@1")).all()
    twice = fates("my_module:MyLoss=0.3,my_module:MyLoss=0.3")
    assert (twice < 0).mean() == pytest.approx(0.51, abs=0.05)
    assert (own < 0).mean() == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("text", ["my_module:MyLoss=0.4", "my_module:Nap=0.3,loss=0.1"])
def test_engines_agree_on_own_faults(mine: Mine, text: str) -> None:
    faults, policy = cb.parse_faults(text), cb.parse_policy("gossip-ts")
    results = [
        play(policy=policy, faults=faults, keep="arms", engine=engine)
        for engine in ("cpu", "reference")
    ]
    assert results[0].dataset["arms"].equals(results[1].dataset["arms"])
    assert results[0].meta["settings"]["faults"] == faults.spelling


def test_own_delays_are_for_the_reference_engine(mine: Mine) -> None:
    faults, policy = cb.parse_faults("my_module:Late=2"), cb.parse_policy("gossip-ts")
    result = play(policy=policy, faults=faults)
    assert result.meta["engines"] == ["reference"]
    assert result.dataset["messages_late"].sum() > 0


def test_own_faults_and_clocks(mine: Mine) -> None:
    policy = cb.parse_policy("gossip-ts")
    play(policy=policy, faults="my_module:AnyTimeLoss=0.5", clocks="poisson")
    lost = play(policy=policy, faults="my_module:AnyTimeLoss=1", clocks="poisson").dataset
    assert lost["messages_lost"].equals(lost["messages_sent"].rename("messages_lost"))
    with pytest.raises(
        cb.InputError, match="fault my_module:MyLoss is defined in rounds, and with"
    ):
        play(policy=policy, faults="my_module:MyLoss=0.5", clocks="poisson")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my_module:MyLoss", "fault 'my_module:MyLoss' has no value; write name=value"),
        ("my_module:MyLoss=x@", r"'my_module:MyLoss=x@' is malformed; .*:MyLoss=SHARE\[@EVERY\]"),
        ("loss:x=0.3", "fault 'loss:x=0.3' is malformed; write loss=PROBABILITY"),
        ("my_module:MyLos=0.3", "unknown fault in my_module 'MyLos'; .* did you mean 'MyLoss'"),
        ("my_module:wheel=0.3", "my_module:wheel is <function .*; it must be a frozen dataclass"),
        ("my_module:Formless=1", "my_module:Formless is .* that sets name, form and touches"),
        ("my_module:Lost=1", "unknown touches of fault my_module:Lost 'mesages'; .* 'messages'"),
        ("my_module:Late=1:-1", "longest_delay of fault my_module:Late is -1; it must be a whole"),
    ],
)
def test_faults_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.parse_faults(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "my_module:Misshapen=1",
            r"Misshapen=1 returns messages of shape \(3,\); .* 10 columns here",
        ),
        ("my_module:Late=3", "Late=3 makes messages late by 3 to 3 rounds; .* longest_delay, 2"),
    ],
)
def test_effects_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        play(policy=cb.parse_policy("gossip-ts"), faults=text)


# Graphs


@pytest.mark.parametrize(
    ("text", "agents", "edges"),
    [
        ("my_module:wheel:6", 6, 10),
        ("my_module:wheel: 6 ,seed=3", 6, 10),
        ("my_module:chain:4", 4, 3),
        ("my_module:chain:4,2", 6, 5),
        ("my_module:chain:6|my_module:wheel:6", 6, 10),
        ("my_module:chain:6|cycle:6", 6, 6),
    ],
)
def test_graphs(mine: Mine, text: str, agents: int, edges: int) -> None:
    network = cb.Network.from_spec(text)
    assert (network.num_agents, network.num_edges, network.description) == (agents, edges, text)


def test_seeds_of_graphs(mine: Mine) -> None:
    def edges(text: str) -> set[Any]:
        return set(parse_graph(f"my_module:drawn:12,0.5{text}").edges)

    assert edges("") == edges(",seed=0") != edges(",seed=1")
    text = "my_module:drawn:12,0.5,seed=1"
    faults = f"graphs=3:{text},loss=0.2"
    result = play(graph=text, faults=faults, engine="reference")
    assert result.meta["settings"]["faults"] == f"loss=0.2,graphs=3:{text}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my_module:whel:6", "unknown graph in my_module 'whel'; .* did you mean 'wheel'"),
        ("my_module:MyPolicy:6", "my_module:MyPolicy is .*; it must be a function of numbers"),
        (
            "my_module:wheel",
            r"'my_module:wheel' is malformed; write my_module:wheel:SIZE\[,seed=S\]",
        ),
        ("my_module:wheel:six", "malformed; write my_module:wheel:SIZE"),
        ("my_module:wheel:6,7,8", "malformed; write my_module:wheel:SIZE"),
        ("my_module:wheel:6,seed=x", "malformed; write my_module:wheel:SIZE"),
        ("my_module:chain:6,seed=1", r"malformed; write my_module:chain:SIZE\[,EXTRA\]$"),
        ("my_module:drawn:6", r"malformed; write my_module:drawn:SIZE,CHANCE\[,seed=S\]"),
        ("my_module:broken:6", "^graph 'my_module:broken:6' cannot .*: ValueError: no such graph$"),
        ("my_module:no_problem", "graph is 3; give a networkx Graph, an adjacency matrix or an"),
        ("no_module:wheel:6", "there is no module no_module for graph no_module:wheel; its file"),
    ],
)
def test_graphs_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.Network.from_spec(text)


# Clocks


def test_clocks(mine: Mine) -> None:
    clocks = cb.parse_clocks("my_module:MyClocks:ratio=2")
    assert clocks == mine.MyClocks(ratio=2)
    assert clocks and clocks.spelling == "my_module:MyClocks:ratio=2"
    result = play(policy=cb.parse_policy("gossip-ts"), clocks=clocks)
    assert result.meta["settings"]["clocks"] == "my_module:MyClocks:ratio=2"


# Entry points, experiment files, the command line


def test_entry_points(package: Mine) -> None:
    policy = cb.parse_policy("offered-policy:constant=2")
    assert (policy, policy.spelling) == (package.MyPolicy(2.0), "offered-policy:constant=2")
    assert package.MyPolicy().spelling == "offered-policy"
    assert cb.parse_problem("offered-problem:gap=1") == package.MyProblem(1)
    assert make_problem("own", {"kind": "offered-problem", "gap": 1}) == package.MyProblem(1)
    assert cb.parse_faults("offered-fault=0.3") == cb.Faults(package.MyLoss(0.3))
    assert cb.Faults(package.MyLoss(0.3)).spelling == "offered-fault=0.3"
    assert cb.Network.from_spec("offered-wheel:6").num_edges == 10
    clocks = cb.parse_clocks("offered-clocks")
    assert (clocks, clocks and clocks.spelling) == (package.MyClocks(), "offered-clocks")
    with pytest.raises(cb.InputError, match=r"malformed; write offered-wheel:SIZE\[,seed=S\]"):
        parse_graph("offered-wheel:six")


EXPERIMENT = """
horizon = 12
runs = 1
policies = ["{0}:MyPolicy:constant=2", "gossip-ts"]
graphs = ["{0}:wheel:5"]
faults = ["{0}:MyLoss=0.5"]
[problems.mine]
kind = "{0}:MyProblem"
gap = 1.0
"""


def test_an_experiment_in_worker_processes(mine: Mine, folder: Path) -> None:
    (folder / "e.toml").write_text(EXPERIMENT.format("my_module"))
    cells = cb.read_experiment(folder / "e.toml")
    assert cells[0].settings["policy"] == "my_module:MyPolicy:constant=2"
    done = cb.sweep(cells, folder / "ledger", workers=1, progress=False)
    assert not done.failed
    for cell, result in done.results:
        assert result.policies == [cell.policy.spelling]
        assert result.meta["settings"]["faults"] == "my_module:MyLoss=0.5"
    assert cb.sweep(cells, folder / "ledger", progress=False).results[0][1].policies


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Call the installed command in a folder that holds a user's module."""
    (tmp_path / "my_module.py").write_text(SOURCE)
    (tmp_path / "random.py").write_text("raise RuntimeError('a file that hides a library')")
    script = Path(sys.executable).parent / "coopbandits"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


def test_the_command_finds_modules_in_the_current_folder(command: Command, tmp_path: Path) -> None:
    done = command(
        "simulate", "--graph", "my_module:wheel:5", "--policy", "my_module:MyPolicy:constant=2",
        "--problem", "my_module:MyProblem:gap=1,arms=2", "--faults", "my_module:Nap=0.1",
        "--horizon", "10", "--runs", "1", "--out", "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = cb.Result.load(tmp_path / "out")
    assert result.policies == ["my_module:MyPolicy:constant=2"]
    assert result.meta["settings"]["problem"] == {"problem": "own", "means": [1.0, 0.0]}
    (tmp_path / "e.toml").write_text(EXPERIMENT.format("my_module"))
    done = command("run", "e.toml", "--out", "swept", "--workers", "1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", ["means", "sigma"])
def test_arms_are_given_in_one_way(command: Command, option: str) -> None:
    done = command(
        "simulate", "--graph", "cycle:4", "--policy", "dducb", "--out", "out", f"--{option}", "1",
        "--problem", "bernoulli:means=0.5,0.4x5",
    )  # fmt: skip
    assert done.returncode == 2
    sentence = f"error: --{option} and --problem were both given; give one of them, such as"
    assert " ".join(done.stderr.split()).startswith(sentence)
