"""Experiments as data: a TOML file with strict keys becomes the cells of a sweep.

::

    horizon = 10000
    runs = 10
    seeds = [0]
    policies = ["dducb", "independent-ucb"]
    graphs = ["cycle:100", "grid:10x10"]
    weights = "auto"
    shuffle_arms = false
    faults = ["none", "loss=0.3"]
    clocks = "none"
    stop = "none"
    engine = "auto"
    precision = "float64"

    [problems.paper]
    kind = "gaussian"
    means = "1,0.8x16"
    sigma = 1.0

Every policy is played on every graph, problem and seed, with all faults. Policies, graphs, faults,
clocks and kinds of problems may be a user's own, written ``my_module:Name``; reading the file then
runs the code of that module.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from coopbandits.core.checks import require_flag
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.registry import parse_policy
from coopbandits.network import Network, parse_faults
from coopbandits.problems import make_problem
from coopbandits.sim.clocks import parse_clocks
from coopbandits.sim.engine import AUTO, NAMES
from coopbandits.sim.ledger import Cell
from coopbandits.sim.setup import PRECISIONS, read_stop

DEFAULTS: dict[str, Any] = {
    "horizon": 10_000,
    "runs": 10,
    "seeds": [0],
    "policies": None,
    "graphs": None,
    "weights": "auto",
    "shuffle_arms": False,
    "faults": ["none"],
    "clocks": "none",
    "stop": "none",
    "engine": AUTO,
    "precision": PRECISIONS[0],
    "problems": {"paper": {"kind": "gaussian", "means": "1,0.8x16", "sigma": 1.0}},
}
"""Every key with its default; None marks those that must be given."""


def read_experiment(path: str | Path, overrides: Sequence[str] = ()) -> list[Cell]:
    """Read the cells of an experiment file.

    Parameters
    ----------
    path : path
        A TOML file.
    overrides : sequence of str
        ``key=value`` with a TOML value or a bare word; dots lead into tables.
    """
    settings = {**DEFAULTS, **_read(Path(path))}
    for override in overrides:
        _override(settings, override)
    for key, value in settings.items():
        if key not in DEFAULTS:
            raise unknown_name(f"key in {path}", key, DEFAULTS)
        if value is None or value == [] or value == {}:
            raise InputError(f"{path} has no {key}; give at least one")
    return _cells(settings)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give an experiment file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no TOML file: {error}") from error


def _override(settings: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set takes key=value, such as horizon=500; got {text!r}")
    *path, last = key.strip().split(".")
    table = settings
    for name in path:
        below = table.get(name)
        if not isinstance(below, dict):
            raise InputError(f"--set {text}: there is no table {name!r}")
        table[name] = table = dict(below)  # a copy: the defaults are shared
    table[last] = _toml_value(value.strip())


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _cells(settings: Mapping[str, Any]) -> list[Cell]:
    problems = [make_problem(name, spec) for name, spec in _table(settings, "problems").items()]
    networks = [Network.from_spec(spec, settings["weights"]) for spec in _texts(settings, "graphs")]
    policies = [parse_policy(text) for text in _texts(settings, "policies")]
    horizon, runs = _whole("horizon", settings["horizon"], 1), _whole("runs", settings["runs"], 1)
    seeds = [_whole("seeds", seed, 0) for seed in _listed(settings, "seeds")]
    _refuse_twins("graphs", [network.description for network in networks])
    _refuse_twins("policies", [policy.spelling for policy in policies])
    _refuse_twins("seeds", seeds)
    shuffle_arms = settings["shuffle_arms"]
    require_flag("shuffle_arms", shuffle_arms)
    clocks = parse_clocks(_text(settings, "clocks"))
    stop = read_stop(settings["stop"])
    engine, precision = (
        _one_of(settings, "engine", NAMES),
        _one_of(settings, "precision", PRECISIONS),
    )
    given = settings["faults"]
    listed = [given] if isinstance(given, str) else _texts(settings, "faults")
    conditions = [parse_faults(text) for text in listed]
    _refuse_twins("faults", [faults.spelling for faults in conditions])
    return [
        Cell(
            problem,
            network,
            policy,
            horizon,
            runs,
            seed,
            shuffle_arms,
            faults,
            clocks,
            stop,
            engine,
            precision,
        )
        for problem, network, seed, faults, policy in product(
            problems, networks, seeds, conditions, policies
        )
    ]


def _refuse_twins(key: str, names: Sequence[Any]) -> None:
    """Reject values that are listed twice; they would be played and shown once."""
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{key} holds {name!r} twice; give each once")


def _listed(settings: Mapping[str, Any], key: str) -> list[Any]:
    value = settings[key]
    if not isinstance(value, list):
        raise InputError(f"{key} is {value!r}; give a list, such as {key} = [{value!r}]")
    return value


def _text(settings: Mapping[str, Any], key: str) -> str:
    value = settings[key]
    if not isinstance(value, str):
        raise InputError(f"{key} is {value!r}; give a text in quotes")
    return value


def _one_of(settings: Mapping[str, Any], key: str, known: Sequence[str]) -> str:
    if (value := _text(settings, key)) not in known:
        raise unknown_name(key, value, known)
    return value


def _texts(settings: Mapping[str, Any], key: str) -> list[str]:
    for value in (values := _listed(settings, key)):
        if not isinstance(value, str):
            raise InputError(f"{key} holds {value!r}; give texts in quotes")
    return values


def _table(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = settings[key]
    if not isinstance(value, dict):
        raise InputError(f"{key} is {value!r}; give tables, such as [{key}.mine]")
    return value


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1e4
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} holds {value!r}; give whole numbers, at least {least}")
    return value
