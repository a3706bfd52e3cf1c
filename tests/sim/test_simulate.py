"""`simulate`: what it refuses, what it returns, what it counts."""

from __future__ import annotations

import math
import os
import re
import select
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    BernoulliBandit,
    CentralUCB,
    GaussianBandit,
    IndependentUCB,
    InputError,
    Network,
    Policy,
    Result,
    SimulationInterrupted,
    simulate,
)
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words, variates

from .policies import Fixed, InterruptedAt, Recording, UpwardAgent

PROBLEM = GaussianBandit([0.2, 1.0, 0.6], sigma=0.5)
NETWORK = Network.from_spec("cycle:5")


def play(**changes: Any) -> Result:
    call: dict[str, Any] = {
        "problem": PROBLEM, "network": NETWORK, "policies": [DDUCB()], "horizon": 30,
    }  # fmt: skip
    return simulate(**(call | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"problem": [1.0, 0.8]}, r"problem.*\[1\.0, 0\.8\]"),
        ({"problem": "bernouli:0.5"}, "'bernouli'.*'bernoulli'"),
        ({"network": [[0, 1], [1, 0]]}, r"network.*cb\.Network\("),
        ({"network": "cycl:5"}, "'cycl'.*'cycle'"),
        ({"policies": []}, "no policy"),
        ({"policies": ["ducb"]}, "'ducb'.*'dducb'"),
        ({"policies": [3]}, r"\b3\b.*policy"),
        ({"policies": ["dducb", DDUCB()]}, r"\bdducb\b.*twice"),
        ({"policies": [DDUCB]}, r"no policy.*cb\.DDUCB\(\)"),
        ({"policies": [DDUCB(), DDUCB(eta=2.0)]}, r"\bdducb\b.*twice"),
        ({"horizon": 0}, r"horizon.* 0\b"),
        ({"horizon": -3}, r"horizon.* -3\b"),
        ({"runs": 0}, r"runs.* 0\b"),
        ({"seed": -1}, r"seed.* -1\b"),
        ({"keep": "agent"}, "'agent'.*'agents'"),
        ({"engine": "cpus"}, "'cpus'.*'cpu'"),
        ({"rounds": 0}, r"rounds.* 0\b"),
        ({"rounds": 10**13}, r"rounds.* 1e\+13.* 1e\+08"),
        (
            {"rounds": [0, 5]},
            r"rounds.* 1 to 30.*\[0, 5\]",
        ),
        ({"rounds": [31]}, r"rounds.* 1 to 30.*\[31\]"),
        ({"rounds": [[1, 2]]}, r"rounds.* 1 to 30.*\[\[1, 2\]\]"),
        ({"horizon": 20.0}, r"horizon.* 20\.0.* 20$"),
        ({"horizon": 20.5}, r"horizon.* 20\.5.* 1$"),
        ({"horizon": math.inf}, "horizon.* inf.* 1$"),
        ({"horizon": "20"}, "horizon is '20'"),
        ({"runs": 1.5}, "runs is 1.5"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"rounds": [1.7, 3.2]}, r"rounds.*\[1\.7, 3\.2\]"),
        ({"policies": None}, "policies.* None"),
        ({"policies": "ducb"}, "'ducb'.*'dducb'"),
        (
            {"policies": "independent-ucb", "horizon": 10**15},
            "5 agents.* 1000000000000000 rounds",
        ),
        ({"keep": None}, "keep 'None'"),
        ({"threads": 1.0}, "threads is 1.0"),
        ({"threads": 0}, r"threads.* 0\b"),
        ({"threads": 10_000}, r"threads.* 10000\b"),
    ],
)
def test_bad_input_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        play(**changes)


def test_everything_may_be_named_as_on_the_command_line() -> None:
    spelled = simulate(
        "gaussian:0.2,1,0.6,sigma=0.5", "cycle:5", ["dducb", "independent-ucb"], horizon=30
    )
    made = play(policies=[DDUCB(), IndependentUCB()])
    assert spelled.meta["settings"] == made.meta["settings"]
    assert (spelled.regret == made.regret).all()


def test_horizon_below_the_number_of_arms_warns_the_caller() -> None:
    with pytest.warns(UserWarning, match=r"horizon 2\b.* 3\b") as caught:
        result = play(horizon=2)
    assert result.horizon == 2
    assert caught[0].filename == __file__.replace(".pyc", ".py")


def test_one_policy_needs_no_list() -> None:
    assert play(policies=DDUCB()).dataset.equals(play(policies=[DDUCB()]).dataset)


def test_coordinates_are_in_the_order_given() -> None:
    policies = [IndependentUCB(), DDUCB(own_pulls=False), Fixed(2), DDUCB()]
    result = play(policies=policies, runs=3, seed=7, keep="arms", progress=False)
    assert result.policies == ["independent-ucb", "dducb:own_pulls=false", "fixed:arm=2", "dducb"]
    assert result.meta["engines"] == ["cpu", "cpu", "reference", "cpu"]
    sizes = {"policy": 4, "run": 3, "round": result.regret.sizes["round"]}
    assert dict(result.regret.sizes) == sizes
    assert result.arms.dims == ("policy", "run", "agent", "pull")
    assert result.arms.shape == (4, 3, 5, 30)
    for policy in policies:
        alone = play(policies=policy, runs=3, seed=7, keep="arms")
        together = result.dataset.sel(policy=[policy.spelling])
        assert together.equals(alone.dataset), policy.spelling


def test_regret_is_gaps_times_pulls() -> None:
    result = play(policies=[DDUCB(), IndependentUCB()], runs=2, keep="arms", rounds=range(1, 31))
    for t in (1, 3, 17, 30):
        played = result.arms[..., :t].values
        expected = PROBLEM.gaps[played].sum(axis=(2, 3))
        np.testing.assert_allclose(result.regret.sel(round=t), expected, rtol=1e-12)
    for arm in range(3):
        per_agent = (result.arms.values == arm).sum(axis=3)
        assert np.array_equal(result.dataset["agent_pulls"][..., arm], per_agent)
        assert np.array_equal(result.dataset["pulls"][..., arm], per_agent.sum(axis=2))


@pytest.mark.parametrize("keep", ["", "agents", "arms"])
def test_only_what_is_wanted_is_kept(keep: str) -> None:
    result = play(keep=keep, policies=[DDUCB(), IndependentUCB()])
    assert ("agent_pulls" in result.dataset) == (keep != "")
    assert ("arms" in result.dataset) == (keep == "arms")
    assert int(result.dataset["pulls"].sum()) == 2 * 5 * 30
    if not keep:
        assert result.pulls.dims == ("policy", "run", "arm")


def test_rounds() -> None:
    def recorded(rounds: Any, horizon: int = 30) -> list[int]:
        return play(rounds=rounds, horizon=horizon).dataset["round"].values.tolist()  # type: ignore[no-any-return]  # ints

    assert recorded(1) == [30]
    assert recorded(2) == [1, 30]
    assert recorded([4, 9, 4]) == [4, 9, 30]
    assert recorded((30,)) == [30]
    assert recorded([]) == [30]
    assert recorded(np.array([2, 3])) == [2, 3, 30]
    assert recorded(None) == list(range(1, 31))
    many = recorded(None, horizon=5000)
    assert many == sorted(set(many))
    assert many[0] == 1
    assert many[-1] == 5000
    assert 100 <= len(many) <= 200


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_the_choice_of_rounds_changes_nothing(engine: str) -> None:
    policies = [DDUCB(), DDUCB(neighbor_pulls=True), IndependentUCB()]
    call: dict[str, Any] = {"policies": policies, "horizon": 90, "engine": engine, "keep": "arms"}
    whole = play(rounds=range(1, 91), **call)
    for rounds in (1, [17, 40], None):
        part = play(rounds=rounds, **call)
        common = whole.dataset.sel(round=part.dataset["round"])
        assert np.array_equal(part.arms, whole.arms)
        assert np.array_equal(part.regret, common["regret"])
        assert np.array_equal(part.dataset["values_sent"], common["values_sent"])
        np.testing.assert_allclose(part.realized_regret, common["realized_regret"], rtol=1e-9)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("policy", "values"),
    [
        (DDUCB(), 6),
        (DDUCB(own_pulls=False), 6),
        (DDUCB(neighbor_pulls=True), 8),
        (DDUCB(remix=True), 12),
        (DDUCB(remix=True, neighbor_pulls=True), 14),
        (DDUCB(values_per_message=2), 2),
        (IndependentUCB(), 0),
    ],
    ids=lambda value: getattr(value, "spelling", str(value)),
)
def test_messages_are_counted(engine: str, policy: Any, values: int) -> None:
    """(T − K) rounds, 2|E| directed links; the K initial rounds are silent."""
    result = play(policies=policy, engine=engine, horizon=40, runs=2, rounds=[3, 4, 20])
    links = 2 * 5
    sent = [(t - 3) * links * values for t in (3, 4, 20, 40)]
    assert result.dataset["values_sent"][0, 1].values.tolist() == sent
    assert result.values_sent.values.tolist() == [[sent[-1]] * 2]
    messages = 37 * links if values else 0
    assert result.dataset["messages_sent"].values.tolist() == [[messages] * 2]


def test_a_budget_leaves_the_last_message_of_a_stage_shorter() -> None:
    """6 coordinates twice in messages of 5: 5, 5, 2 values a stage."""
    for engine in ("cpu", "reference"):
        policy = DDUCB(values_per_message=5, mixing_rounds=2)
        result = play(policies=policy, engine=engine, horizon=8, rounds=range(1, 9))
        expected = [10 * n for n in (0, 0, 0, 5, 10, 12, 17, 22)]
        assert result.dataset["values_sent"][0, 0].values.tolist() == expected


def test_somebody_elses_messages_are_counted_too() -> None:
    result = play(policies=Recording(UpwardAgent), horizon=7)
    assert result.values_sent.values.tolist() == [[7 * 5 * 3]]
    assert result.dataset["messages_sent"].values.tolist() == [[7 * 5]]


@pytest.mark.parametrize("engine", ["auto", "cpu"])
def test_without_a_kernel_the_reference_engine_plays(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = play(policies=[Fixed(1), DDUCB()], engine=engine)
    note = " ".join(capsys.readouterr().err.split())
    assert "fixed:arm=1 has no compiled kernel" in note
    assert "dducb" not in note
    assert result.meta["engines"] == ["reference", "cpu"]
    assert (result.regret.sel(policy="fixed:arm=1") == 0).all()
    play(policies=[Fixed(1), DDUCB()], engine="reference")
    assert capsys.readouterr().err == ""


def test_all_policies_meet_the_same_rewards() -> None:
    """With equal σ two arms' rewards differ by their means alone, pull by pull."""
    policies = [Fixed(0), Fixed(1), Fixed(2)]
    result = play(policies=policies, runs=2, seed=4, rounds=range(1, 31))
    rounds = result.dataset["round"].values
    realized = result.realized_regret.values
    for run in range(2):
        z = variates("normal", tape_words(agent_keys(4, REWARDS, run, 5), 0, 30))
        noise = 0.5 * z.sum(axis=0).cumsum()
        for arm in range(3):
            expected = PROBLEM.gaps[arm] * 5 * rounds - noise
            np.testing.assert_allclose(realized[arm, run], expected, rtol=1e-9, atol=1e-9)


def test_uniform_rewards_are_paired_too() -> None:
    """A better Bernoulli arm pays whenever a worse one does."""
    problem = BernoulliBandit([0.3, 0.6])
    result = play(problem=problem, policies=[Fixed(0), Fixed(1)], rounds=range(1, 31))
    paid = 0.6 * 5 * result.dataset["round"].values - result.realized_regret.values[:, 0]
    worse, better = np.diff(np.rint(paid), axis=1)
    assert (better >= worse).all()
    assert (better > worse).any()


def test_threads_are_given_back() -> None:
    before = numba.get_num_threads()
    play(threads=1)
    assert numba.get_num_threads() == before


module = import_module("coopbandits.sim.simulate")  # the package has a function of that name
INTERRUPT_PROBLEM = GaussianBandit([1.0, 0.5])
INTERRUPT_NETWORK = Network.from_spec("cycle:4")

# Python ignores Ctrl-C where a shell started it in the background; a test must not depend on that.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from coopbandits.cli import main
main()
"""


def interrupted(policies: list[Policy]) -> SimulationInterrupted:
    with pytest.raises(SimulationInterrupted) as caught:
        simulate(INTERRUPT_PROBLEM, INTERRUPT_NETWORK, policies, 12, 5, seed=8, progress=False)
    assert isinstance(caught.value, KeyboardInterrupt)
    return caught.value


@pytest.mark.parametrize("first", [True, False])
def test_runs_that_every_policy_finished_are_kept(first: bool) -> None:
    stops = InterruptedAt(run=2, num_agents=4)
    policies: list[Policy] = [DDUCB(), IndependentUCB()]
    policies.insert(0 if first else 2, stops)
    stop = interrupted(policies)
    assert "2 of 5 runs" in str(stop)
    assert stop.result is not None
    assert stop.result.dataset.sizes["run"] == 2
    assert stop.result.meta["settings"]["runs"] == 2
    whole = simulate(
        INTERRUPT_PROBLEM, INTERRUPT_NETWORK, [DDUCB(), IndependentUCB()], 12, 5, seed=8
    )
    kept = stop.result.dataset.drop_sel(policy="interrupted")
    assert kept.equals(whole.dataset.isel(run=slice(2)))


def test_nothing_is_kept_when_no_run_was_finished() -> None:
    stop = interrupted([InterruptedAt(run=0, num_agents=4), IndependentUCB()])
    assert stop.result is None
    assert "0 of 5 runs" in str(stop)


def test_policies_that_finished_are_kept_where_no_run_is_complete() -> None:
    stop = interrupted([IndependentUCB(), InterruptedAt(run=0, num_agents=4), DDUCB()])
    assert re.search("1 of 5 runs.*independent-ucb", str(stop))
    assert stop.result is not None
    assert stop.result.policies == ["independent-ucb"]
    assert stop.result.meta["settings"]["policies"] == ["independent-ucb"]
    assert stop.result.meta["engines"] == ["cpu"]
    whole = simulate(INTERRUPT_PROBLEM, INTERRUPT_NETWORK, IndependentUCB(), 12, 1, seed=8)
    assert stop.result.dataset.equals(whole.dataset)


def test_compiled_runs_are_played_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C late in a simulation must not lose its beginning, however fast an engine is."""
    monkeypatch.setattr(module, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(module, "FIRST_SHARE", 10**15)
    played: list[range] = []
    engine = import_module("coopbandits.sim.cpu").ENGINE

    def stop_later(self: object, task: Task, runs: range, tick: Tick) -> Record:
        if runs.start >= 4:
            raise KeyboardInterrupt
        played.append(runs)
        record: Record = real(self, task, runs, tick)
        return record

    real = type(engine).play
    monkeypatch.setattr(type(engine), "play", stop_later)
    with pytest.raises(SimulationInterrupted) as caught:
        simulate(
            INTERRUPT_PROBLEM,
            INTERRUPT_NETWORK,
            [IndependentUCB(), CentralUCB()],
            12,
            50,
            seed=8,
            threads=2,
        )
    assert played == [range(2), range(2), range(2, 4), range(2, 4)]
    assert "4 of 50 runs" in str(caught.value)
    monkeypatch.undo()
    whole = simulate(
        INTERRUPT_PROBLEM, INTERRUPT_NETWORK, [IndependentUCB(), CentralUCB()], 12, 50, seed=8
    )
    assert caught.value.result is not None
    assert caught.value.result.dataset.equals(whole.dataset.isel(run=slice(4)))


def test_partial_results_are_results(tmp_path: Path) -> None:
    stop = interrupted([InterruptedAt(run=3, num_agents=4)])
    assert stop.result is not None
    stop.result.save(tmp_path)
    assert Result.load(tmp_path).dataset.equals(stop.result.dataset)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to draw the bar on")
def test_a_real_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    """Sent as soon as the bar is seen, which is after a second of many short runs."""
    out = tmp_path / "out"
    arguments = (
        "simulate --graph cycle:4 --policy dducb --means 1,0.5 --horizon 40 --runs 100000 "
        f"--seed 3 --engine reference --out {out}"
    )
    screen, terminal = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments.split()],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(terminal)
    try:
        assert b"simulating" in read_screen(screen, until=b"simulating")
        child.send_signal(signal.SIGINT)
        said = read_screen(screen, until=b"\0").decode()
        assert child.wait(30) == 130
    finally:
        child.kill()
        child.communicate()
        os.close(screen)
    told = re.search(r"kept (\d+) of 100000 runs; written to (\S+): result.nc", said)
    assert told is not None, said
    runs, folder = int(told[1]), Path(told[2])
    assert folder.is_relative_to(out)
    result = Result.load(folder)
    assert 1 <= runs == result.dataset.sizes["run"]
    same = simulate(INTERRUPT_PROBLEM, INTERRUPT_NETWORK, DDUCB(), 40, runs, 3)
    assert np.array_equal(result.regret, same.regret)


def read_screen(screen: int, until: bytes, seconds: float = 60.0) -> bytes:
    """Read what is drawn until a text appears or the program ends."""
    seen, deadline = b"", time.monotonic() + seconds
    while until not in seen and time.monotonic() < deadline:
        if not select.select([screen], [], [], 0.2)[0]:
            continue
        try:
            part = os.read(screen, 65536)
        except OSError:  # how Linux says that the other side was closed
            break
        if not part:
            break
        seen += part
    return seen
