"""Features in a configuration: what is read, what is refused, and what contexts become."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, write_config
from coopbandits.fleet.config.check import compare, explain
from coopbandits.fleet.config.features import Encoder, Feature, features_table, read_features
from coopbandits.fleet.config.read import ConfigError
from coopbandits.fleet.service import require_context

from .sample import NOW, REMOVED, made, made_bandit

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True, database=None)

TABLE = {"hour": [0, 24], "country": ["PT", "ES", "FR"], "age": [-1.5, 1.5]}
LINEAR = "tree-sums*lin-ts:disjoint=true"
LOCAL = (
    ("tls", REMOVED),
    ("node.listen", "127.0.0.1:7400"),
    ("neighbors.0.address", "127.0.0.1:7401"),
    ("neighbors.1.address", "127.0.0.1:7402"),
)


def declared(features: Any = TABLE, *changes: tuple[str, Any], policy: str = LINEAR) -> NodeConfig:
    told = ("bandits.button.features", features), ("bandits.button.policy", policy)
    return made(*told, *changes, *LOCAL, insecure=True)


def test_columns_are_one_and_the_features_by_name() -> None:
    bandit = declared().bandits["button"]
    assert bandit.features == (
        Feature("age", (-1.5, 1.5)),
        Feature("country", None, ("PT", "ES", "FR")),
        Feature("hour", (0.0, 24.0)),
    )
    encode = bandit.encoder.columns
    assert bandit.encoder.width == 6
    assert encode({"hour": 0, "country": "PT", "age": 0}).tolist() == [1, 0, 1, 0, 0, -1]
    assert encode({"age": 1.5, "hour": 18, "country": "FR"}).tolist() == [1, 1, 0, 0, 1, 0.5]
    assert encode({"age": np.float32(0.75), "hour": np.int64(24), "country": "ES"}).tolist() == [
        1, 0.5, 0, 1, 0, 1,
    ]  # fmt: skip


def test_the_order_in_a_file_does_not_matter_and_that_of_values_does() -> None:
    one, same, other = (
        declared(table).bandits["button"]
        for table in (
            TABLE,
            dict(reversed(TABLE.items())),
            {**TABLE, "country": ["ES", "PT", "FR"]},
        )
    )
    assert one.digest == same.digest
    assert other.digest != one.digest


def test_what_is_written_is_read_again() -> None:
    names = {**TABLE, 'what "it" is': ["a\\b", "c = 1"], "ä.b": [1, 2]}
    text = write_config({"bandits": {"button": {"features": names}}})
    assert tomllib.loads(text)["bandits"]["button"]["features"] == names
    found = read_features("features", names)
    assert read_features("features", features_table(found)) == found


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        ([], r"\[bandits\.button\] features.*\[\].*hour = \[0, 24\]"),
        ({}, "features.* {}"),
        ({"hour": 24}, r"features\.hour.* 24\b"),
        ({"hour": [24, 0]}, r"features\.hour.* \[24, 0\]"),
        ({"hour": [0, float("inf")]}, r"features\.hour.* \[0, inf\]"),
        ({"hour": [float("nan"), 1]}, r"features\.hour.* \[nan, 1\]"),
        ({"hour": [False, True]}, r"features.hour is \[False, True\]"),
        ({"hour": [-1.7e308, 1.7e308]}, "it must be the lowest"),
        ({"hour": [0, 1, 2]}, r"features\.hour.* \[0, 1, 2\]"),
        ({"land": ["PT"]}, r"features\.land.* \['PT'\].*two or more"),
        ({"land": ["PT", 3]}, r"features\.land.* \['PT', 3\]"),
        ({"land": ["PT", "ES", "PT"]}, r"features\.land.*'PT' twice"),
        ({"land": ["PT", ""]}, r"features\.land\[1\].* ''"),
        ({" ": [0, 1]}, "features.* ' '"),
        ({"a\nb": [0, 1]}, r"features.* 'a\\nb'"),
        ({"x" * 101: [0, 1]}, r"101 characters.* 100\b"),
        ({"n": [str(n) for n in range(100)]}, r"101 columns.* 100\b"),
    ],
)
def test_what_is_no_table_of_features_gets_a_sentence(features: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        declared(features)
    assert len(refused.value.problems) == 1


def test_a_policy_and_features_belong_together() -> None:
    with pytest.raises(ConfigError, match=r"no.*features|features.*none"):
        made(("bandits.button.policy", LINEAR))
    with pytest.raises(ConfigError, match=r"features.*flood-ts"):
        declared(policy="flood-ts")
    by_itself = made_bandit(("features", TABLE))
    assert by_itself.policy == "flooded-totals*lin-ts:disjoint=true"
    assert made_bandit().policy == "flood-ts"


def test_what_it_means_is_explained() -> None:
    text = explain(declared(), NOW)
    row = next(line for line in text.splitlines() if "features: " in line)
    assert "country, one of 'PT', 'ES', 'FR'; hour, a number from 0 to 24: 6 columns" in row
    size = declared().bandits["button"].message_size()
    assert size is not None
    assert size.usual >= 3 * (6 * 9 // 2 + 1)
    assert "features" not in explain(made(*LOCAL, insecure=True), NOW)


def test_nodes_that_declare_others_are_told_apart() -> None:
    one, other = declared(), declared({"hour": [0, 23]}, ("node.id", "shop-9"))
    (sentence,) = [said for said in compare({"1": one, "2": other}) if "features" in said]
    assert re.search(r"features.*\{'hour': \[0\.0, 23\.0\]\}.*\{'age': \[-1\.5, 1\.5\]", sentence)


def test_many_categories_are_not_all_listed() -> None:
    encoder = Encoder(read_features("features", {"n": [f"n{i}" for i in range(50)]}))
    with pytest.raises(InputError, match=r"'n50'.*'n0', .*'n29', …"):
        encoder.columns({"n": "n50"})
    with pytest.raises(InputError, match=r"'n'.* 'x{99}…"):
        encoder.columns({"n": "x" * 10_000})
    many = Encoder(read_features("features", {f"f{i}": [0, 1] for i in range(99)}))
    with pytest.raises(InputError, match=r"f0: a number from 0 to 1, .*, …$"):
        many.encode(None)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=3,
)
names = st.sampled_from([*TABLE, "our", ""]) | st.text(max_size=3)
near = st.fixed_dictionaries(
    {"hour": anything | st.floats(-1, 25), "country": anything | st.sampled_from(["PT", "pt"]),
     "age": st.floats(-2, 2)}
)  # fmt: skip


@REPEATABLE
@given(anything | st.dictionaries(names, anything, max_size=4) | near)
def test_any_context_becomes_columns_in_range_or_one_sentence(context: Any) -> None:
    encoder = Encoder(read_features("features", TABLE))
    try:
        found = encoder.encode(context)
    except InputError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 500
    else:
        assert found is not None
        assert found.shape == (6,)
        assert (abs(found) <= 1.0).all()
        assert found[0] == 1.0
        assert found[2:5].sum() == 1.0
        assert require_context(context).keys() == TABLE.keys()


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", ["flooded-totals", "tree-sums"])
def test_a_model_that_no_memory_holds_is_refused(policy: str) -> None:
    arms = ("bandits.button.arms", [f"arm-{k}" for k in range(1000)])
    many = {"product": [f"product-{k}" for k in range(99)]}
    linear = f"{policy}*lin-ts:disjoint=true"
    with pytest.raises(InputError, match=r"[\d,]+ MB \(1000 arms, 100 columns"):
        declared(many, arms, policy=linear)
    assert declared({"hour": [0, 24]}, arms, ("cluster.max_agents", 20), policy=linear)
