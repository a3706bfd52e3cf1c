from __future__ import annotations

import re
import tomllib
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from coopbandits import InputError
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import (
    ApiLimits,
    ClusterConfig,
    ConfigError,
    NodeConfig,
    TlsFiles,
    parse_config,
    read_config,
    write_config,
)
from coopbandits.fleet.config.bandits import Arm, BanditConfig, derived_number
from coopbandits.fleet.config.eligibility import obstacle
from coopbandits.fleet.identity.certs import init_authority, issue

from .sample import GOOD, NOW, REMOVED, made

LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-14)))


def problems(*changes: tuple[str, Any], insecure: bool = False) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        made(*changes, insecure=insecure)
    found = [text.removeprefix("here/node.toml: ") for text in refused.value.problems]
    assert str(refused.value) == "\n".join(refused.value.problems)
    return found


def test_everything_that_can_be_said() -> None:
    here = Path("here").absolute()
    config = made(
        ("bandits.button.policy", "dducb:eta=3.0"),
        ("bandits.button.sigma", 2),
        ("bandits.button.num_agents", 8),
        ("bandits.button.lambda_bound", 0.5),
        ("cluster.rounds_per_second", 5),
        ("cluster.max_pulls_per_second", 10),
        ("cluster.max_agents", 50),
        ("node.durability", "power"),
        ("node.api", "unix:agent.sock"),
        ("node.token_file", "/etc/token"),
        ("node.ticket_lifetime", 60),
        ("node.max_open_tickets", 7),
        ("node.silence", 1.5),
        ("node.uvloop", True),
        ("api_tls", {"ca": "../a.pem", "certificate": "b.pem", "key": "c.pem"}),
        ("api_limits.max_connections", 9),
        ("api_limits.header_timeout", 2),
        ("api_limits.hosts", ["Shop-1.example.net", "fd00::1"]),
        ("api_limits.origins", ["https://shop.example.net:8443"]),
    )
    assert config == NodeConfig(
        cluster=ClusterConfig(
            name="shop",
            epoch=1769860800,
            rounds_per_second=5.0,
            max_pulls_per_second=10.0,
            max_agents=50,
        ),
        bandits={
            "button": BanditConfig(
                "button",
                derived_number("button"),
                config.cluster,
                arms=(Arm("red", "red"), Arm("green", "green"), Arm("blue", "blue")),
                policy="dducb:eta=3",
                reward_range=(0.0, 1.0),
                sigma=2.0,
                num_agents=8,
                lambda_bound=0.5,
            )
        },
        id="shop-1",
        journal=here / "memory/shop-1",
        neighbors={"shop-2": Address("10.0.0.2", 7400), "shop-3": Address("fd00::3", 7401)},
        listen=Address("10.0.0.1", 7400),
        durability="power",
        api=here / "agent.sock",
        token_file=Path("/etc/token"),
        ticket_lifetime=60.0,
        max_open_tickets=7,
        silence=1.5,
        uvloop=True,
        tls=TlsFiles(here / "ca.pem", here / "shop-1.pem", here / "shop-1-key.pem"),
        api_tls=TlsFiles(here / "../a.pem", here / "b.pem", here / "c.pem"),
        api_limits=ApiLimits(
            max_connections=9,
            header_timeout=2.0,
            hosts=("shop-1.example.net", "fd00::1"),
            origins=("https://shop.example.net:8443",),
        ),
    )


def test_what_is_left_out_has_a_default() -> None:
    config = made(("node.listen", REMOVED), ("neighbors", REMOVED))
    assert str(config.listen) == "0.0.0.0:7400"
    assert config.api == Address("127.0.0.1", 8400)
    assert (config.durability, config.neighbors, config.uvloop) == ("process", {}, False)
    assert config.bandits["button"].policy == "flood-ts"


def test_the_default_policy_follows_from_the_declared_number_of_agents() -> None:
    plain = {"arms": ["red", "green"], "sigma": 1.0}
    sections = {
        "plain": plain,
        "rates": {"arms": ["red", "green"], "reward_range": [0.0, 1.0]},
        "forgets": plain | {"half_life": "2h"},  # a ledger cannot, by the clock
        "named": plain | {"policy": "tree-ts"},
    }

    def policies(max_agents: int) -> list[str]:
        found = made(("cluster.max_agents", max_agents), ("bandits", sections)).bandits
        return [bandit.policy for bandit in found.values()]

    assert policies(200) == ["flood-ts", "flood-ts", "flood-ts", "tree-ts"]
    assert policies(201) == ["ledger-ts", "ledger-ts", "flood-ts", "tree-ts"]


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("cluster.name", "", r"\[cluster\] name.* ''"),
        ("cluster.name", "a\nb", r"\[cluster\] name.* 'a\\nb'"),
        ("cluster.name", REMOVED, r"\[cluster\].*\bname\b"),
        ("cluster.epoch", datetime(2026, 1, 1), "epoch.*offset"),
        ("cluster.epoch", datetime(1969, 1, 1, tzinfo=UTC), r"epoch.* 1970\b"),
        ("cluster.epoch", datetime(2026, 1, 1, 0, 0, 0, 5, UTC), r"epoch.* 1970\b"),
        ("cluster.epoch", date(2026, 1, 1), r"epoch.* datetime\.date\(2026, 1, 1\)"),
        ("cluster.arms", ["a", "b"], r"\[cluster\] has arms.*section \[bandits\.NAME\]"),
        ("cluster.policy", "tree-ts", r"\[cluster\] has policy.*section \[bandits\.NAME\]"),
        ("bandits.button.arms", REMOVED, r"\[bandits\.button\] has no arms"),
        ("bandits.button.arms", ["a"], r"\[bandits\.button\] arms.* 1\b.* 2 to 1000"),
        ("bandits.button.arms", "ab", r"\[bandits\.button\] arms.* 'ab'"),
        ("bandits.button.arms", ["a", "b", "a"], r"\[bandits\.button\] arms.*'a' twice"),
        ("bandits.button.arms", ["a", 3], r"\[bandits\.button\] arms\[1\].* 3\b"),
        ("bandits.button.arms", ["a", "b" * 101], r"\[bandits\.button\] arms\[1\].* 101 .* 100\b"),
        ("bandits.button.arms", [str(k) for k in range(1001)], r"\[bandits\.button\] arms.* 1001"),
        ("bandits.button.policy", "flod-ts", "'flod-ts'.*coop-se"),
        ("bandits.button.policy", "flood-ts:famly=x", "'famly'.*'family'"),
        ("bandits.button.policy", 3, r"\[bandits\.button\] policy.* 3\b"),
        ("bandits.button.reward_range", [1, 0], r"reward_range.* \[1, 0\].*lower"),
        ("bandits.button.reward_range", [0, float("inf")], r"reward_range.* \[0, inf\]"),
        ("bandits.button.reward_range", [-1.7e308, 1.7e308], r"range.* \[-1\.7e\+308, 1\.7e"),
        ("bandits.button.reward_range", [0, float("nan")], r"reward_range.* \[0, nan\]"),
        ("bandits.button.reward_range", [0, True], r"reward_range.* \[0, True\]"),
        ("bandits.button.reward_range", [0, 1, 2], r"reward_range.* \[0, 1, 2\]"),
        ("bandits.button.sigma", 0, r"sigma.* 0\b"),
        ("bandits.button.num_agents", 0, r"num_agents.* 0\b"),
        ("bandits.button.num_agents", "many", "num_agents.* 'many'.*'estimate'"),
        ("bandits.button.lambda_bound", 1.0, r"lambda_bound.* 1\.0\b"),
        ("bandits.button.lambda_bound", "half", "lambda_bound.* 'half'"),
        ("cluster.rounds_per_second", 0, r"rounds_per_second.* 0\b"),
        ("cluster.rounds_per_second", 5e-324, "rounds_per_second.* 5e-324"),
        ("cluster.max_pulls_per_second", 5e-324, "max_pulls_per_second.* 1e-09"),
        ("cluster.signatures_per_second", 9e-10, "signatures_per_second.* 1e-09"),
        ("cluster.epoch", LATEST, "epoch.* 9999-12-31T23:59:59-14:00"),
        ("api_limits.max_connections", 2**63 - 1, r"max_connections.* 1000000\b"),
        ("cluster.max_agents", 2.5, r"max_agents.* 2\.5"),
        ("node.id", "Shop_1", r"\[node\] id.* 'Shop_1'"),
        ("node.id", "-a", r"\[node\] id.* '-a'"),
        ("node.id", "a" * 64, "a DNS name of up to 253 characters"),
        ("node.id", "Shop.example.org", "in lower case"),
        ("node.id", "*.example.org", r"'\*\.example\.org'"),
        ("node.id", "shop-1\n", r"\[node\] id.* 'shop-1\\n'"),
        ("node.listen", "10.0.0.1", r"\[node\] listen.* '10\.0\.0\.1'.*host:port"),
        ("node.listen", "10.0.0.1:65536", r"listen.* 65535\b"),
        ("node.listen", "fd00::3:7400", "listen.* 'fd00::3:7400'.*host:port"),
        ("node.listen", "[fd00::x]:7400", "listen.*host:port"),
        ("node.listen", "a b:7400", "it must be host:port"),
        ("node.listen", ":7400", "listen.*host:port"),
        ("node.listen", 7400, r"listen.* 7400\b.*host:port"),
        ("node.journal", REMOVED, r"\[node\].*journal"),
        ("node.journal", "", r"\[node\] journal.* ''"),
        ("node.api", "unix:", r"\[node\] api.* ''"),
        ("node.durability", "disk", "durability 'disk'.*power, process"),
        ("node.uvloop", "yes", "uvloop.* 'yes'"),
        ("node.lisen", "x:1", r"\[node\] 'lisen'.*advertise, api"),
        ("api_limits.max_connections", 0, r"\[api_limits\] max_connections"),
        ("api_limits.body_timeout", 0.0, r"\[api_limits\] body_timeout"),
        ("api_limits.hosts", "shop-1", "hosts.* 'shop-1'"),
        ("api_limits.hosts", ["10.0.0.1:80"], "hosts.*without a port"),
        ("api_limits.hosts", ["abc:80"], "hosts.*without a port"),
        ("api_limits.hosts", ["shop-1:80"], "hosts.*without a port"),
        ("api_limits.hosts", ["http://shop-1"], "hosts.*without a port"),
        ("api_limits.origins", ["shop.example.net"], "origins.*web pages"),
        ("api_limits.origins", ["https://shop.example.net/"], "origins.*web pages"),
        ("api_limits.timeout", 1.0, r"\[api_limits\] 'timeout'"),
        ("bandits.button.reward_range", [0.0, 1e200], r"reward_range.* -1e\+60 and 1e\+60"),
        ("bandits.button.sigma", 1e200, r"sigma.* 1e-60 to 1e\+60"),
        ("bandits.button.sigma", 1e-200, r"sigma.* 1e-60 to 1e\+60"),
        ("tls.key", REMOVED, r"\[tls\].*\bkey\b"),
        ("tls", "ca.pem", r"\[tls\].* 'ca\.pem'"),
        ("neighbours", [], "'neighbours'.*api_limits, api_tls, bandits"),
        ("node.neighbors", "all", "neighbors.* 'auto'"),
        ("node.degree", 2, r"degree.* 2\b.* 3 to 50"),
        ("node.degree", True, "degree.* True.* 3 to 50"),
        ("node.seeds", "shop:7400", r"seeds.* 32\b"),
        ("node.seeds", ["shop:7400", "shop"], r"seeds\[1\].* 'shop'.*host:port"),
        ("neighbors", {}, r"\[\[neighbors\]\]"),
        ("neighbors.0.address", "10.0.0.2:0", r"address.* '10\.0\.0\.2:0'"),
        ("neighbors.0.adress", "10.0.0.2:1", r"\[\[neighbors\]\] 'adress'"),
        ("neighbors.1.id", "shop-2", "shop-2.*twice"),
        ("neighbors.1.id", REMOVED, r"\[\[neighbors\]\].*\bid\b"),
    ],
)  # fmt: skip
def test_one_wrong_value(place: str, value: Any, sentence: str) -> None:
    (found,) = problems((place, value))
    assert re.search(sentence, found)


def test_all_problems_are_told_together() -> None:
    found = problems(("cluster.name", 3), ("node.id", 3), ("tls.ca", 3), ("other", 3))
    named = ("'other'", r"\[cluster\] name.* 3\b", r"\[node\] id.* 3\b", r"\[tls\] ca.* 3\b")
    assert all(re.search(name, text) for name, text in zip(named, found, strict=True))
    assert len(problems(("bandits.button.reward_range", REMOVED), ("tls", REMOVED))) == 2
    with pytest.raises(ConfigError) as refused:
        parse_config({}, "empty.toml", now=NOW)
    assert len(refused.value.problems) == 4


def test_policies_that_cannot_run_are_refused() -> None:
    for spelling in EXAMPLES:
        reason = obstacle(parse_policy(spelling))
        if reason:
            (found,) = problems(("bandits.button.policy", spelling))
            assert repr(spelling) in found and reason in found


def test_time_zones() -> None:
    elsewhere = datetime(2026, 1, 31, 13, tzinfo=timezone(timedelta(hours=1)))
    assert made(("cluster.epoch", elsewhere)) == made()


def certify(folder: Path) -> None:
    init_authority(folder)
    issue(folder, ["shop-1"])


def write(folder: Path) -> Path:
    path = folder / "node.toml"
    path.write_text(write_config(GOOD))
    return path


def test_a_file(tmp_path: Path) -> None:
    certify(tmp_path)
    config = read_config(write(tmp_path), now=NOW)
    assert config == parse_config(GOOD, tmp_path / "node.toml", now=NOW)
    assert config.journal == tmp_path / "memory" / "shop-1"
    (tmp_path / "shop-1-key.pem").unlink()
    with pytest.raises(ConfigError, match=r"shop-1-key\.pem"):
        read_config(write(tmp_path), now=NOW)


def test_a_file_from_an_editor_that_marks_utf_8(tmp_path: Path) -> None:
    certify(tmp_path)
    plain = write(tmp_path).read_bytes()
    config = read_config(write(tmp_path), now=NOW)
    (tmp_path / "node.toml").write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))
    assert read_config(tmp_path / "node.toml", now=NOW) == config


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"node\.toml.*No such file"):
        read_config(tmp_path / "node.toml", now=NOW)
    for content in (b"node = [", b"\xff", b"a = " + b"[" * 2000, b"a = 1" + b"0" * 5000):
        (tmp_path / "node.toml").write_bytes(content)
        with pytest.raises(InputError, match=r"node\.toml.*TOML"):
            read_config(tmp_path / "node.toml", now=NOW)


def test_numbers_that_no_float_holds(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(f"[node]\nmax_open_tickets = 0x{'f' * 5000}\n")
    with pytest.raises(InputError, match="64 bits"):
        read_config(tmp_path / "node.toml", now=NOW)
    with pytest.raises(InputError, match=r"sigma.* 10+\b"):
        made(("bandits.button.sigma", 10**400))


def test_the_example_in_the_documentation(tmp_path: Path) -> None:
    from coopbandits.fleet.config import read

    text = str(read.__doc__).split("::\n\n")[1].split("`ClusterConfig`")[0]
    (tmp_path / "node.toml").write_text(re.sub("^    ", "", text, flags=re.MULTILINE))
    certify(tmp_path)
    assert read_config(tmp_path / "node.toml", now=NOW).id == "shop-1"


TABLES: dict[str, Any] = {
    "one": {
        "text": 'a "quoted" \\ word\n\t\x00\x7f\x1b é 😀',
        "empty": "",
        "yes": True,
        "no": False,
        "whole": -3,
        "large": 2**62,
        "real": 0.1,
        "huge": 1e300,
        "tiny": 5e-324,
        "inf": float("inf"),
        "date": datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC),
        "list": [1.0, "two", [True]],
        "none": [],
        "table": {"a b": [0, 24], 'what "it" is': {"x": "y"}},
    },
    "empty": {},
    "many": [{"id": "a"}, {"id": "b", "port": 1}],
    "nobody": [],
}


def test_what_is_written_is_read_again() -> None:
    read = tomllib.loads(write_config(TABLES))
    assert read == {name: table for name, table in TABLES.items() if name != "nobody"}
    assert tomllib.loads(write_config(GOOD)) == GOOD


def test_paths_are_texts() -> None:
    assert tomllib.loads(write_config({"a": {"b": Path("/x/y z")}})) == {"a": {"b": "/x/y z"}}


@pytest.mark.parametrize("value", [None, {"a": None}, b"x"])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="TOML"):
        write_config({"a": {"b": value}})


POD: dict[str, Any] = {
    "node": {"id": "${POD_NAME}", "listen": "${POD_IP}:7400", "advertise": "${POD_NAME}.shop:7400",
             "api": "${POD_IP}:8400", "journal": "memory/${POD_NAME}-${ZONE}"},
    "tls": {"ca": "${TLS}/ca.crt", "certificate": "${TLS}/tls.crt", "key": "${TLS}/tls.key"},
    "api_limits": {"hosts": ["${POD_NAME}.shop", "shop"]},
}  # fmt: skip


def expanded(environment: dict[str, str], **node: Any) -> NodeConfig:
    more = {"token_file": "token", "neighbors": "auto", "seeds": ["shop-0:7400"]}
    data = GOOD | POD | {"node": POD["node"] | more | node, "neighbors": []}
    return parse_config(data, "/here/agent.toml", now=NOW, environment=environment)


def test_one_file_serves_many_agents() -> None:
    for name, ip in (("pod-0", "10.0.0.7"), ("pod-4711", "10.0.9.9")):
        config = expanded({"POD_NAME": name, "POD_IP": ip, "ZONE": "b", "TLS": "/tls"})
        assert config.id == name
        assert (config.listen, config.api) == (Address(ip, 7400), Address(ip, 8400))
        assert config.advertise == Address(f"{name}.shop", 7400)
        assert config.journal == Path(f"/here/memory/{name}-b")
        assert config.tls == TlsFiles(*map(Path, ("/tls/ca.crt", "/tls/tls.crt", "/tls/tls.key")))
        assert config.api_limits.hosts == (f"{name}.shop", "shop")


@pytest.mark.parametrize("name", [{}, {"POD_NAME": ""}])
def test_a_variable_that_is_missing_is_named(name: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        expanded({"POD_IP": "10.0.0.7", "ZONE": "b", "TLS": "/tls"} | name)
    problems = refused.value.problems
    assert len(problems) == 4, problems
    assert all("variable POD_NAME is not set or is empty; set it" in each for each in problems)
    assert "[node] id is '${POD_NAME}'" in problems[0]


def test_secrets_do_not_come_from_the_environment() -> None:
    secret = "a-token-in-the-environment"
    environment = {"POD_NAME": "a", "POD_IP": "10.0.0.7", "ZONE": "b", "TLS": "/t", "TOKEN": secret}
    for key in ("token_file", "revoked"):
        with pytest.raises(ConfigError) as refused:
            expanded(environment, **{key: "${TOKEN}"})
        (problem,) = refused.value.problems
        assert (
            f"[node] {key} is '${{TOKEN}}'; environment variables are expanded only in" in problem
        )
        assert secret not in problem


def test_what_all_agents_share_has_no_variables() -> None:
    data = GOOD | {"bandits": {"button": {"arms": ["${ZONE}", "$x"], "sigma": 1.0}}}
    config = parse_config(data, "agent.toml", now=NOW, environment={"ZONE": "b"})
    assert [arm.name for arm in config.bandits["button"].arms] == ["${ZONE}", "$x"]


def test_a_value_from_the_environment_is_checked_like_any_other() -> None:
    with pytest.raises(ConfigError, match=r"id is 'Pod_0'; it must be a DNS name .*'shop-1'"):
        expanded({"POD_NAME": "Pod_0", "POD_IP": "10.0.0.7", "ZONE": "b", "TLS": "/t"})


def test_the_environment_of_the_process_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "shop-1")
    assert made(("node.id", "${POD_NAME}")).id == "shop-1"
