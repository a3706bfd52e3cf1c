"""What the pages and examples of the fleet say is so."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet import service
from coopbandits.fleet.address import parse_address
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.api.metrics import CUTS, DURATIONS, REQUESTS, Meter, render
from coopbandits.fleet.api.openapi import describe
from coopbandits.fleet.client.exchange import (
    ERRORS,
    REASONS,
    Reply,
    choose_request,
    reason_of,
    unpack,
)
from coopbandits.fleet.config import NodeConfig, TlsFiles, parse_config
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.identity.tls import api_context
from coopbandits.fleet.protocol import frames
from coopbandits.fleet.service.metrics import CATALOGUE
from coopbandits.fleet.storage import records

from .api.running import ask, running
from .api.stand_in import StandIn

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples" / "fleet"
FLEET = ROOT / "src" / "coopbandits" / "fleet"
PROTOCOL = (*(FLEET / "protocol").glob("*.py"), FLEET / "document/spread.py")
KEY = "secret"


def rows(page: Path, columns: int) -> list[list[str]]:
    """Return the cells of all tables with so many columns, heads left out."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == columns]


def text_after(page: str, start: str) -> str:
    """Return a page from the first line that begins so."""
    return (DOCS / page).read_text().partition(f"\n{start}")[2]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def own_metrics() -> dict[str, list[str]]:
    """Return name, kind, labels and meaning of all metrics of agent and API."""
    known: dict[str, tuple[str, str, tuple[str, ...]]] = dict(CATALOGUE.items())
    known |= {name: ("counter", text, labels) for name, text, labels in (REQUESTS, CUTS)}
    known |= {name: ("histogram", text, ()) for name, text in DURATIONS.values()}
    return {
        f"coopbandits_{name}": [kind, ", ".join(f"`{label}`" for label in labels), text]
        for name, (kind, text, labels) in known.items()
    }


def test_the_page_lists_all_metrics() -> None:
    listed = {name.strip("`"): rest for name, *rest in rows(DOCS / "metrics.md", 4)}
    assert listed == own_metrics()


def exported() -> set[str]:
    """Return the names under which Prometheus knows our metrics."""
    names = set(own_metrics())
    histograms = [name for name, row in own_metrics().items() if row[0] == "histogram"]
    names |= {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    return names | set(re.findall(r"^(process_\w+) ", render([], Meter()).decode(), re.M))


@pytest.mark.parametrize(
    "path",
    [EXAMPLES / "dashboard.json", EXAMPLES / "alerts.yml", DOCS / "fleet/monitoring.md",
     DOCS / "metrics.md", DOCS / "fleet/protocol.md"],
    ids=lambda path: path.name,
)  # fmt: skip
def test_metrics_that_are_named_exist(path: Path) -> None:
    named = set(re.findall(r"\b(?:coopbandits|process)_[a-z_]+", path.read_text()))
    assert named
    assert named <= exported()


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 10
    for panel in panels:
        for target in panel["targets"]:
            assert target["expr"].count("(") == target["expr"].count(")")
            assert 'instance=~"$instance"' in target["expr"]


def test_alerts_are_those_of_the_page() -> None:
    yaml: Any = importlib.import_module("yaml")
    (group,) = yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]
    names = [rule["alert"] for rule in group["rules"]]
    assert all(rule["expr"] and rule["annotations"]["summary"] for rule in group["rules"])
    text = (DOCS / "fleet/monitoring.md").read_text().split("## Alerts")[1]
    assert names == re.findall(r"^\| `(\w+)`", text, re.M)
    scrape = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
    assert scrape["rule_files"] == ["alerts.yml"]


def test_prometheus_gets_in_as_its_example_says(tmp_path: Path) -> None:
    yaml: Any = importlib.import_module("yaml")
    (job,) = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())["scrape_configs"]
    init_authority(tmp_path)
    issue(tmp_path, ["shop-1", "prometheus"])
    ca, certificate, key = (
        tmp_path / Path(job["tls_config"][file]).name
        for file in ("ca_file", "cert_file", "key_file")
    )
    own = TlsFiles(tmp_path / "ca.pem", tmp_path / "shop-1.pem", tmp_path / "shop-1-key.pem")
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    name = job["static_configs"][0]["targets"][0].partition(":")[0]
    with running(StandIn(), "0.0.0.0:0", tls=api_context(own)) as server:
        place = "127.0.0.1", parse_address(server.address).port
        with (
            socket.create_connection(place, timeout=5) as raw,
            context.wrap_socket(raw, server_hostname=name) as link,
        ):
            link.sendall(b"GET /metrics HTTP/1.1\r\nhost: shop-1\r\nconnection: close\r\n\r\n")
            with link.makefile("rb") as answer:
                assert b"coopbandits_link_up" in answer.read()
    assert job["scheme"] == "https"


def test_the_table_of_paths_is_that_of_the_api() -> None:
    paths = describe([])["paths"]
    listed = {row[0].strip("`"): row[1].lower() for row in rows(DOCS / "fleet/api.md", 3)}
    assert listed == {path: next(iter(methods)) for path, methods in paths.items()}


def test_the_table_of_errors_is_that_of_api_and_clients() -> None:
    paths = describe([], protected=True)["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    statuses = {int(each) for one in operations for each in one["responses"]} - {200, 304}
    text = (DOCS / "fleet/api.md").read_text()
    listed = re.findall(r"^\| (\d+) \| `(\w+)`", text, re.M)
    raised: dict[int, type[Exception]] = dict.fromkeys(statuses, InputError)
    raised |= {429: service.RateLimitError, **ERRORS}
    raised |= {500: service.UnavailableError, 503: service.UnavailableError}
    assert listed == [(str(status), raised[status].__name__) for status in sorted(raised)]


def test_the_table_of_defaults_is_that_of_clients() -> None:
    text = (DOCS / "fleet/api.md").read_text()
    table = text[text.index("| reason | meaning |") :].split("\n\n")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", table, re.M))
    assert tuple(listed) == REASONS
    statuses = {
        int(status): reason
        for reason, meaning in listed.items()
        for status in re.findall(r"\b\d{3}\b", meaning)
    }
    assert statuses.pop(503) == "draining"  # where the answer says so
    assert statuses.pop(500) == "failed"
    for status, reason in statuses.items():
        with pytest.raises(InputError) as caught:
            unpack(Reply(status, {}, b"{}"), choose_request("", None, None, None), Path("api"))
        assert reason_of(caught.value) == reason


def test_tests_that_are_named_exist() -> None:
    """Those that the page on the protocol names, and one at least for every row of the failures."""
    shown = tomllib.loads((Path(__file__).parent / "failures_shown.toml").read_text())
    told = re.findall(r"^\| \*\*(.+?)\*\*", (DOCS / "fleet/failures.md").read_text(), re.M)
    assert list(shown) == told
    assert all(shown.values())
    code = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "fleet/protocol.md").read_text()))
    assert named
    named |= {name for names in shown.values() for name in names}
    assert {name for name in named if f"def {name}(" not in code} == set()


def test_every_line_of_the_threats_has_a_test_that_exists() -> None:
    shown = tomllib.loads((Path(__file__).parent / "threats_shown.toml").read_text())
    text = (DOCS / "fleet/threats.md").read_text()
    lines = re.findall(r"^- \*\*(can|cannot|ends)\*\* (.+)$", text, re.M)
    assert [" ".join(line) for line in lines] == list(shown)
    assert all(shown.values())
    named = [test for tests in shown.values() for test in tests]
    assert len(named) > 130
    for test in named:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no {name}"


def test_commands_of_the_threats_exist() -> None:
    page, makefile = (DOCS / "fleet/threats.md").read_text(), (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`make ([\w-]+)", page))
    assert {"fuzz", "soak", "test-chaos", "mutants"} <= named
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.M)} == set()


def test_metrics_and_alerts_of_the_failures_exist() -> None:
    text = (DOCS / "fleet/failures.md").read_text()
    metrics = re.findall(r"`(?!test_)([a-z_]+_(?:total|up|seconds))[`{]", text)
    assert set(metrics) <= {*CATALOGUE, CUTS[0]}
    alerts = set(re.findall(r"- alert: (\w+)", (EXAMPLES / "alerts.yml").read_text()))
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", text)) - {"UnreachableError"}
    assert len(metrics) > 5
    assert len(named) > 5
    assert named <= alerts


def test_the_table_of_a_header_is_that_of_frames() -> None:
    text = (DOCS / "fleet/protocol.md").read_text()
    listed = re.findall(r"^\| (\d+) \| (\d) \| (\w+) \|", text, re.M)
    codes = frames.HEADER.format.removeprefix("<")
    assert [int(size) for _, size, _ in listed] == [struct.calcsize(f"<{code}") for code in codes]
    starts = [struct.calcsize(f"<{codes[:at]}") for at in range(len(codes))]
    assert [int(start) for start, _, _ in listed] == starts
    assert f"a header of {frames.HEADER.size} bytes" in text
    assert f"`{frames.MAGIC:#06X}`".replace("0X", "0x") in text
    assert ", ".join(f"{kind.value} {kind.name}" for kind in frames.Kind) in text


def test_the_table_of_events_is_that_of_the_journal() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", text_after("fleet/protocol.md", "| event | when"), re.M)
    assert listed == [kind.__name__ for kind in get_args(records.Event)]


def test_the_table_of_reasons_is_that_of_the_protocol() -> None:
    table = text_after("fleet/protocol.md", "| reason | what was wrong").partition("\n\n")[0]
    listed = re.findall(r"`([a-z ]+)`", "\n".join(re.findall(r"^\| (`.*?) \|", table, re.M)))
    code = "".join(file.read_text() for file in PROTOCOL)
    used = r'(?:reason, sentence = |refuse\([\w.\[\]]+, |FrameError\(\s*)"([a-z ]+)"'
    assert sorted(listed) == sorted(set(re.findall(used, code)))


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running(StandIn()) as server:
        yield server


def test_the_python_of_the_page_runs(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text(KEY)
    shown, namespace = io.StringIO(), {"__name__": "page"}
    for code in blocks(DOCS / "fleet/api.md", "python"):
        code = code.replace("127.0.0.1:8400", server.address)
        with contextlib.redirect_stdout(shown):
            exec(code, namespace)  # noqa: S102  own pages
    assert "blue" in shown.getvalue()
    assert shown.getvalue().endswith("ready\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_of_the_page_works(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(KEY)
    commands = blocks(DOCS / "fleet/api.md", "sh")
    assert len(commands) == 5
    (both,) = (text for text in blocks(ROOT / "README.md", "sh") if "curl" in text)
    commands += both.splitlines()
    for command in commands:
        ticket = ask(server, "POST", "/choose").json()["ticket"]
        command = command.replace("127.0.0.1:8400", server.address).replace("TICKET", ticket)
        done = subprocess.run(
            ["bash", "-c", f"{command.strip()} --silent --fail-with-body"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def accepted(text: str) -> NodeConfig:
    now = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    return parse_config(tomllib.loads(text), "shop-1.toml", now=now)


def test_the_configuration_of_the_readme_is_accepted() -> None:
    (text,) = blocks(ROOT / "README.md", "toml")
    assert accepted(text).cluster == accepted((EXAMPLES / "shop-1.toml").read_text()).cluster


def test_the_configuration_is_accepted() -> None:
    config = accepted((EXAMPLES / "shop-1.toml").read_text())
    assert (config.id, list(config.neighbors)) == ("shop-1", ["shop-2", "shop-3"])
    assert str(config.journal) == "/var/lib/coopbandits/shop-1"


UNIT = EXAMPLES / "systemd" / "coopbandits-agent@.service"


def test_the_unit_keeps_the_agent_in_and_alive() -> None:
    settings = re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.M)
    for wanted in (
        ("Type", "notify"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("WatchdogSec", "30"),
        ("Restart", "on-failure"),
        ("User", "coopbandits"),
        ("ProtectSystem", "strict"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("StateDirectory", "coopbandits/%i"),
    ):
        assert wanted in settings


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here"
)
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "coopbandits-agent@shop-1.service"
    # The program of this environment stands in for the installed one, which must exist.
    unit.write_text(UNIT.read_text().replace("/opt/coopbandits/bin/coopbandits", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "coopbandits-agent" not in done.stderr, done.stderr


def test_the_container_runs_without_privileges() -> None:
    lines = (EXAMPLES / "Containerfile").read_text().splitlines()
    last = lines[max(at for at, line in enumerate(lines) if line.startswith("FROM")) :]
    assert [line for line in last if line.startswith("USER")] == ["USER 10001"]
    assert any(line.startswith("VOLUME /var/lib/coopbandits") for line in last)
    (check,) = re.findall(r'^  CMD (\[".*"\])$', "\n".join(last), re.M)
    with running(StandIn()) as server:
        _, *command = json.loads(check.replace("127.0.0.1:8400", server.address))
        assert subprocess.run([sys.executable, *command], timeout=30, check=False).returncode == 0
    ended = subprocess.run([sys.executable, *command], capture_output=True, timeout=30, check=False)
    assert ended.returncode == 1
