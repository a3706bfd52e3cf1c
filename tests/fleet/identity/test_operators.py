from __future__ import annotations

import stat
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.certs import init_authority
from coopbandits.fleet.identity.operators import (
    key_text,
    load_key,
    make_key,
    parse_key,
    public_bytes,
    verifies,
)


def test_a_key_is_written_read_and_signs(tmp_path: Path) -> None:
    path = tmp_path / "operator.key"
    public = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = load_key(path)
    assert public_bytes(key) == public == parse_key("key", key_text(public).upper())
    signature = key.sign(b"text")
    assert verifies(public, signature, b"text")
    assert not verifies(public, signature, b"other")
    assert not verifies(bytes(31), signature, b"text"), "what is no key has signed nothing"
    with pytest.raises(InputError, match="exists"):
        make_key(path)
    assert make_key(path, force=True) != public


@pytest.mark.parametrize("value", ["", "ed25519:", "ed25519:" + "g" * 64, "ab" * 32, 3, None])
def test_what_is_no_public_key(value: object) -> None:
    with pytest.raises(InputError, match=r"key\b.*operator"):
        parse_key("key", value)


def test_what_is_no_private_key(tmp_path: Path) -> None:
    path = tmp_path / "operator.key"
    with pytest.raises(InputError, match="coopbandits cluster keygen"):
        load_key(path)
    path.write_text("text")
    path.chmod(0o600)
    with pytest.raises(InputError, match="cannot read a key"):
        load_key(path)
    init_authority(tmp_path / "ca")
    with pytest.raises(InputError, match="Ed25519"):
        load_key(tmp_path / "ca" / "ca-key.pem")
    make_key(path, force=True)
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod o-r"):
        load_key(path)
