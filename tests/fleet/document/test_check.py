"""`coopbandits cluster sign` refuses what agents would, with all problems at once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.read import write_config
from coopbandits.fleet.document.content import check_document
from coopbandits.fleet.document.seal import signature_file
from coopbandits.fleet.identity.operators import make_key

from ..bandits import BUTTON

HEAD = {"name": "shop", "version": 3}
NODE = {"id": "n0", "journal": "n0", "listen": "127.0.0.1:7400", "api": "127.0.0.1:8400"}


def node_file(path: Path, name: str = "shop", **tables: object) -> Path:
    """A node with one bandit, and with other tables."""
    cluster = {"name": name, "epoch": datetime(2026, 1, 1, tzinfo=UTC)}
    told = {"cluster": cluster, "node": NODE, "bandits": {"button": BUTTON}}
    path.write_text(write_config(told | tables))
    return path


def test_nothing_is_signed_that_agents_would_refuse(tmp_path: Path) -> None:
    path, key = tmp_path / "cluster.toml", tmp_path / "operator.key"
    make_key(key)
    bandits = {
        "button": BUTTON | {"pinned": "blue", "token_file": "token"},
        "banner": {"arms": ["a", "b"], "sigma": 1.0, "policy": "dducb"},
        "page": {"arms": ["a"], "sigma": 1.0},
    }
    path.write_text(write_config({"cluster": HEAD, "bandits": bandits}))
    with pytest.raises(InputError) as refused:
        app(["cluster", "sign", str(path), "--key", str(key)], standalone_mode=False)
    lines = str(refused.value).splitlines()
    told = ("token_file is a file of", "pinned in [bandits.button]", "no num_agents", "a list of 1")
    assert all(any(text in line for line in lines) for text in told), lines
    assert not signature_file(path).exists()
    path.write_text(write_config({"cluster": HEAD | {"colour": 1}, "bandits": {"b": {}}}))
    with pytest.raises(InputError, match=r"(?s)\[cluster\].*\[bandits.b\].*arms"):
        check_document(path.read_bytes())
    path.write_text(write_config({"cluster": HEAD | {"colour": 1}}) + "[bandits]\nb = 1\n")
    with pytest.raises(InputError, match=r"(?s)\[cluster\].*\[bandits\] b.* 1\b"):
        check_document(path.read_bytes())


@pytest.mark.parametrize("key", ["reward_range", "features"])
def test_a_number_beyond_all_floats_is_one_sentence(key: str) -> None:
    huge = [0, 10**400]
    given = BUTTON | {key: huge if key == "reward_range" else {"hour": huge}}
    content = write_config({"cluster": HEAD, "bandits": {"button": given}}).encode()
    with pytest.raises(InputError, match=rf"\[bandits\.button\] {key}.* \[0, 10+\]"):
        check_document(content)


def test_files_of_nodes_are_looked_at_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, key = tmp_path / "cluster.toml", tmp_path / "operator.key"
    public = make_key(tmp_path / "new.key").hex()
    make_key(key)
    head = HEAD | {"operators": [f"ed25519:{public}"]}
    members = [{"id": "n1", "address": "10.0.0.1:7400"}]
    path.write_text(
        write_config({"cluster": head, "bandits": {"button": BUTTON}, "members": members})
    )
    near = [{"id": "n1", "address": "127.0.0.1:7401"}]
    one, other = node_file(tmp_path / "one.toml", neighbors=near), tmp_path / "other.toml"
    node_file(other, "bank")
    sign = ["cluster", "sign", str(path), "--key", str(key)]
    with pytest.raises(InputError) as refused:
        app([*sign, "--node", str(one), "--node", str(other)], standalone_mode=False)
    first, second = str(refused.value).splitlines()
    assert "n1 is at 10.0.0.1:7400" in first
    assert "'bank'" in second
    node_file(other)
    app([*sign, "--node", str(other)], standalone_mode=False)
    told = capsys.readouterr()
    assert told.out.startswith("version 3 of shop, signed by 1")
    assert "none of them has signed it" in told.err
    path.write_text(write_config({"cluster": HEAD, "settings": {"rounds_per_second": 0.01}}))
    node_file(other, bandits={"button": BUTTON | {"half_life": "60s"}})
    with pytest.raises(InputError, match="half_life"):
        app([*sign, "--node", str(other)], standalone_mode=False)
