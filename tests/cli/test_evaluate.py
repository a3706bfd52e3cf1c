"""`coopbandits evaluate`: what it prints, and one sentence for every bad log."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from coopbandits import parse_policy
from coopbandits.evaluate import DecisionLog, ips, learned, replay

from .calls import Call, refused

POLICY = "local-sums*lin-ucb:scale=0.1,disjoint=true"
HEADER = "hour,country,shown,clicked,chance\n"


def made_up(count: int) -> DecisionLog:
    """A log of three arms, played in turn."""
    at = np.arange(count)
    table = {
        "one": np.ones(count), "x": at * 7 % 11 / 10, "arm": at % 3, "reward": at * 5 % 13 / 12,
    }  # fmt: skip
    return DecisionLog.from_table(table, ["one", "x"], propensity=1 / 3)


def table(folder: Path, text: str) -> str:
    (folder / "log.csv").write_text(text)
    return str(folder / "log.csv")


def test_a_log_that_was_saved(call: Call, tmp_path: Path) -> None:
    log = made_up(150)
    log.save(tmp_path / "log.jsonl")
    outcome = call(
        "evaluate", str(tmp_path / "log.jsonl"), "--policy", POLICY, "--policy", "independent-ts"
    )
    assert outcome.status == 0, outcome.err
    assert "150 decisions among 3 arms with 2 features" in outcome.out
    sigma = float(np.std(log.rewards))
    values = [
        replay(log, parse_policy(POLICY), sigma=sigma),
        ips(*learned(log, parse_policy(POLICY), sigma=sigma)),
    ]
    lines = [line.split() for line in outcome.out.splitlines()]
    (first,) = (words for words in lines if words[:2] == [POLICY, "replay"])
    assert first[2] == f"{values[0].mean:.4g}"
    assert first[3:] == [
        f"{values[0].low:.4g}", "to", f"{values[0].high:.4g}", f"{values[0].effective:.0f}"
    ]  # fmt: skip
    second = lines[lines.index(first) + 1]
    assert second[:2] == ["ips", f"{values[1].mean:.4g}"]
    assert float(second[2]) < values[1].mean < float(second[4])
    assert outcome.out.count("doubly robust ") == 2


def test_a_table_of_ones_own(call: Call, tmp_path: Path) -> None:
    rows = [f"{at % 24},{'PT' if at % 3 else 'DE'},{at % 2},{at % 5 % 2},0.5" for at in range(90)]
    file = table(tmp_path, HEADER + "\n".join(rows))
    names = ("--context", "hour,country", "--arm", "shown", "--reward", "clicked")
    outcome = call("evaluate", file, "--policy", POLICY, *names, "--propensity", "1/2")
    assert outcome.status == 0, outcome.err
    assert "90 decisions among 2 arms with 3 features" in outcome.out
    same = call("evaluate", file, "--policy", POLICY, *names, "--propensity", "chance")
    assert same.out == outcome.out
    short = call(
        "evaluate", file, "--policy", POLICY, *names, "--propensity", "1/2", "--most", "40"
    )
    assert "the last 40 of 90 decisions" in short.out
    assert "--most uses more" in short.out


def test_what_a_log_cannot_tell_is_said_in_its_place(call: Call, tmp_path: Path) -> None:
    file = table(tmp_path, "arm,reward,propensity\n" + "0,1,1\n" * 5 + "1,0,1\n" + "0,0,1\n" * 2)
    outcome = call("evaluate", file, "--policy", "independent-ucb:constant=1e-9", "--sigma", "1")
    assert outcome.status == 0, outcome.err
    assert "arm 0 is left 7 times" in outcome.out
    assert "rests on" in next(line for line in outcome.out.splitlines() if " ips " in line)


def test_a_central_policy_is_replayed(call: Call, tmp_path: Path) -> None:
    made_up(60).save(tmp_path / "log.jsonl")
    outcome = call("evaluate", str(tmp_path / "log.jsonl"), "--policy", "central-ucb")
    assert outcome.status == 0, outcome.err
    assert "central-ucb  replay" in outcome.out
    assert " ips " not in outcome.out


@pytest.mark.parametrize(
    ("text", "more", "sentence"),
    [
        ("", (), "empty"),
        (HEADER, ("--context", "hour"), "no rewards"),
        (HEADER + "1,PT,0,1,0.5", (), "'arm'"),
        (HEADER + "1,PT,0,1,0.5", ("--context", "minute", "--arm", "shown"), "'minute'"),
        (HEADER + "1,PT,0,,0.5\n1,PT,0,1,1", ("--arm", "shown", "--reward", "clicked"),
         "'clicked'.* nan.*row 0"),
        (HEADER + "1,PT,0,1,0",
         ("--arm", "shown", "--reward", "clicked", "--propensity", "chance"),
         r"decision 0.*propensity 0\.0"),
        (HEADER + "1,PT,0,1,0.5\n1,PT,0,x,0.5", ("--arm", "shown", "--reward", "clicked"),
         "'x'.*row 3.*'clicked'"),
        (HEADER + "1,PT,0,1,0.5\n1,PT,1,1,0.5",
         ("--arm", "shown", "--reward", "clicked", "--propensity", "chance"),
         r"rewards of .* 1\b"),
        (HEADER + "1,PT,0,1,0.5\n1,PT,1,0,0.5",
         ("--arm", "shown", "--reward", "clicked", "--propensity", "chance"),
         "features"),
    ],
)  # fmt: skip
def test_bad_logs(
    text: str, more: tuple[str, ...], sentence: str, call: Call, tmp_path: Path
) -> None:
    error = refused(call("evaluate", table(tmp_path, text), "--policy", POLICY, *more))
    assert re.search(sentence, error), error


def test_other_bad_input(call: Call, tmp_path: Path) -> None:
    file = str(tmp_path / "log.jsonl")
    made_up(20).save(file)
    for words, sentence in (
        ((str(tmp_path / "none.jsonl"), "--policy", POLICY), "cannot be read"),
        ((file, "--policy", "lin-tss"), "unknown policy 'lin-tss'"),
        ((file, "--policy", POLICY, "--most", "0"), "most is 0"),
        ((file, "--policy", POLICY, "--draws", "0"), "draws is 0"),
        ((file, "--policy", POLICY, "--most", "1"), "rewards"),
        ((file, "--policy", POLICY, "--most", "1", "--sigma", "1"), "one part"),
        ((file, "--policy", POLICY, "--sigma", "-1"), "sigma"),
    ):
        assert sentence in refused(call("evaluate", *words))
