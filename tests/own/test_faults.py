"""Users' own faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coopbandits as cb

from .playing import Mine, play


def test_faults(mine: Mine) -> None:
    faults = cb.parse_faults("my_module:MyLoss=0.3,sleep=0.1 , my_module:Nap=1/4,loss=0.2")
    assert faults == cb.Faults(mine.MyLoss(0.3), cb.Sleep(0.1), mine.Nap(0.25), cb.Loss(0.2))
    assert faults.spelling.startswith("loss=0.2,sleep=0.1,my_module:")
    assert cb.parse_faults(faults.spelling) == faults
    spelled = "my_module:MyLoss=0.3@5,my_module:MyLoss=0.3"
    assert cb.parse_faults(spelled).spelling == spelled


def test_a_spelling_tells_all_settings(mine: Mine) -> None:
    spelled = {
        mine.Storm(0.5): "0.5",
        mine.Storm(0.5, 2): "0.5@2..100",
        mine.Storm(0.5, 1, 50): "0.5@1..50",
        mine.Storm(0.5, 1, 100, 300): "0.5@1..100:300",
    }
    for storm, text in spelled.items():
        faults = cb.Faults(storm)
        assert faults.spelling == f"my_module:Storm={text}"
        assert cb.parse_faults(faults.spelling) == faults


def test_a_form_tells_no_more_than_settings(mine: Mine) -> None:
    with pytest.raises(cb.InputError, match=r"\bday\b.*share, every"):
        cb.Faults(mine.Overtold(0.5))


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


@pytest.mark.parametrize(
    "text", ["my_module:MyLoss=0.4", "my_module:Nap=0.3,loss=0.1", "my_module:Late=2"]
)
def test_engines_agree_on_own_faults(mine: Mine, text: str) -> None:
    faults, policy = cb.parse_faults(text), cb.parse_policy("gossip-ts")
    results = [
        play(policy=policy, faults=faults, keep="arms", engine=engine)
        for engine in ("cpu", "reference")
    ]
    assert results[0].dataset["arms"].equals(results[1].dataset["arms"])
    assert results[0].meta["engines"] == ["cpu"]
    assert (results[0].dataset["messages_late"].sum() > 0) == ("Late" in text)
    assert results[0].meta["settings"]["faults"] == faults.spelling


def test_own_faults_and_clocks(mine: Mine) -> None:
    policy = cb.parse_policy("gossip-ts")
    play(policy=policy, faults="my_module:AnyTimeLoss=0.5", clocks="poisson")
    lost = play(policy=policy, faults="my_module:AnyTimeLoss=1", clocks="poisson").dataset
    assert lost["messages_lost"].equals(lost["messages_sent"].rename("messages_lost"))
    with pytest.raises(cb.InputError, match=r"my_module:MyLoss\b"):
        play(policy=policy, faults="my_module:MyLoss=0.5", clocks="poisson")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my_module:MyLoss", "'my_module:MyLoss'.*name=value"),
        ("my_module:MyLoss=x@", r"'my_module:MyLoss=x@'.*:MyLoss=SHARE\[@EVERY\]"),
        ("loss:x=0.3", r"'loss:x=0\.3'.*loss=PROBABILITY"),
        ("my_module:MyLos=0.3", "'MyLos'.*'MyLoss'"),
        ("my_module:wheel=0.3", r"my_module:wheel\b.*frozen dataclass"),
        ("my_module:Formless=1", "my_module:Formless.*name, form and touches"),
        ("my_module:Untold=1", r"Untold.*\bday\b"),
        ("my_module:Lost=1", "my_module:Lost.*'mesages'.*'messages'"),
        ("my_module:Late=1:-1", r"my_module:Late.* -1\b"),
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
            r"Misshapen=1.*\(3,\).* 10 ",
        ),
        ("my_module:Halves=1", "Halves=1.*float64"),
        ("my_module:Late=3", r"Late=3.* 3 to 3\b.*longest_delay"),
    ],
)
def test_effects_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        play(policy=cb.parse_policy("gossip-ts"), faults=text)
