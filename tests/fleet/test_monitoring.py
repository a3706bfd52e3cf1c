"""Metrics, alert rules and the Grafana dashboard fit together, and Prometheus accepts them.

The rules of `promtool check metrics` are held here as well, so that they hold where there is none.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coopbandits.fleet.api.metrics import CUTS, DURATIONS, REQUESTS, Meter, render
from coopbandits.fleet.service.metrics import CATALOGUE, MOST_LABELS
from coopbandits.version import __version__

from .bandits import only
from .service.test_application import path_world, service_in
from .service.test_state import pulled

ROOT = Path(__file__).parents[2]
EXAMPLES, PAGE = ROOT / "examples" / "fleet", ROOT / "docs" / "metrics.md"

OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to every series."""

UNITS = "milliseconds|microseconds|minutes|hours|days|weeks|kilobytes|megabytes|bits|percent"
ABBREVIATIONS = "s|ms|us|ns|sec|b|kb|mb|gb|tb|m|h|d"
KINDS = "counter|gauge|histogram|summary"


class Expression(NamedTuple):
    """A query of the examples, and the labels that its text shows."""

    where: str
    query: str
    shown: set[str]


def metrics() -> dict[str, tuple[str, str, set[str]]]:
    """Return kind, help and labels of every metric of an agent and its API."""
    found: dict[str, tuple[str, str, set[str]]] = {
        name: (kind, text, set(labels)) for name, (kind, text, labels) in CATALOGUE.items()
    }
    found |= {name: ("counter", text, set(labels)) for name, text, labels in (REQUESTS, CUTS)}
    found |= {name: ("histogram", text, set()) for name, text in DURATIONS.values()}
    return {f"coopbandits_{name}": each for name, each in found.items()}


def series() -> dict[str, set[str]]:
    """Return the labels of everything that can be queried by name."""
    found: dict[str, set[str]] = {}
    for name, (kind, _, labels) in metrics().items():
        if kind == "histogram":
            found |= {f"{name}_sum": labels, f"{name}_count": labels}
            found[f"{name}_bucket"] = labels | {"le"}
        else:
            found[name] = labels
    process = re.findall(r"^(process_\w+) ", render([], Meter()).decode(), re.M)
    found |= {name: set[str]() for name in process}
    return found | {"up": set()}


def expressions() -> Iterator[Expression]:
    yaml: Any = importlib.import_module("yaml")
    for group in yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
            yield Expression(rule["alert"], rule["expr"], shown)
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            yield Expression(panel["title"], target["expr"], shown)


def variables() -> dict[str, str]:
    """Return the queries of the dashboard's variables, by name."""
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    listed = dashboard["templating"]["list"]
    return {each["name"]: each["query"] for each in listed if each["type"] == "query"}


@pytest.mark.parametrize("found", list(expressions()), ids=lambda found: found.where)
def test_examples_use_metrics_and_labels_that_exist(found: Expression) -> None:
    known = series()
    names = [name for name in re.findall(r"\b[a-z_]+\b", found.query) if name in known]
    assert names
    of_us = re.findall(r"\b(?:coopbandits|process)_\w+", found.query)
    assert set(of_us) <= known.keys()
    any_of = set[str]().union(*(known[name] for name in names)) | OF_PROMETHEUS
    for name, matchers in re.findall(r"\b([a-z_]+)\{([^}]*)\}", found.query):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers))
        assert labels <= known[name] | OF_PROMETHEUS
    grouped = re.findall(r"\b(?:by|on|ignoring|without|group_left)\s*\(([^)]*)\)", found.query)
    labels = {label.strip() for each in grouped for label in each.split(",") if label.strip()}
    assert labels | found.shown <= any_of
    # Without grouping by bandit, arms of one name would be added up over bandits.
    assert all("bandit" in each for each in grouped if re.search(r"\barm\b", each)) or (
        "ignoring (arm)" in found.query
    )
    assert set(re.findall(r"\$(\w+)", found.query)) <= variables().keys()


def test_variables_of_the_dashboard_are_labels() -> None:
    known = series()
    for name, query in variables().items():
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
        assert found is not None
        assert found[2] == name
        assert name in known[found[1]] | OF_PROMETHEUS


@pytest.mark.parametrize("name", list(metrics()))
def test_metrics_are_named_as_prometheus_wants(name: str) -> None:
    kind, text, labels = metrics()[name]
    parts = name.split("_")
    assert text
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert name.endswith("_total") == (kind == "counter")
    assert not re.search(r"_(sum|count|bucket)$", name)
    assert not {"le", "quantile"} & labels
    for words in (UNITS, ABBREVIATIONS, KINDS):
        assert not set(words.split("|")) & set(parts), words
    assert not [label for label in labels if not re.fullmatch(r"[a-z][a-z0-9_]*", label)]


def test_the_page_counts_the_series_of_arms() -> None:
    bandits = arms = MOST_LABELS
    others = 3 * (bandits + 1)  # of choices, rewards and their sums, but not of means
    assert (
        f"{4 * bandits * arms + others:,}".replace(",", " ") + " series of arms" in PAGE.read_text()
    )


def scraped() -> str:
    """Return what an agent with pulls serves."""
    service = service_in(path_world(only(reward_range=(-1.0, 3.0))))
    pulled(service, "red", 1.0, -1.0)
    meter = Meter()
    meter.time("/choose", 0.1)
    meter.requests["/choose", 200] += 1
    meter.cuts["idle"] += 1
    return render(service.metrics(), meter).decode()


def test_an_agent_serves_every_metric_with_its_version() -> None:
    text = scraped()
    assert re.search(
        rf'^coopbandits_build_info{{.*version="{re.escape(__version__)}"}} 1.0$', text, re.M
    )
    typed = re.findall(r"^# TYPE (coopbandits_\w+) (\w+)$", text, re.M)
    assert dict(typed) == {name: kind for name, (kind, _, _) in metrics().items()}


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not on the PATH; its rules for names are held without it")
    return found


def check(promtool: str, *words: str, given: str | None = None) -> None:
    done = subprocess.run(
        [promtool, "check", *words], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_promtool_accepts_the_metrics(promtool: str) -> None:
    check(promtool, "metrics", given=scraped())


def test_promtool_accepts_the_alerts(promtool: str) -> None:
    check(promtool, "rules", str(EXAMPLES / "alerts.yml"))


def test_promtool_reads_the_queries_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    """As recording rules, which Grafana does not need, with its variables filled in."""
    rules = [
        {"record": f"panel:{at}", "expr": re.sub(r"\$\w+", ".*", found.query)}
        for at, found in enumerate(expressions())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    check(promtool, "rules", str(path))
