from __future__ import annotations

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8400", Address("127.0.0.1", 8400)),
        ("shop-1.example:0", Address("shop-1.example", 0)),
        ("[::1]:65535", Address("::1", 65535)),
        ("unix:/run/agent.sock", Address(path="/run/agent.sock")),
    ],
)
def test_an_address_is_read_and_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


def test_an_absolute_path_is_a_unix_socket() -> None:
    assert parse_address("/run/agent.sock") == Address(path="/run/agent.sock")


@pytest.mark.parametrize(
    "text", ["", "8400", ":8400", "host:", "host:x", "host:65536", "host:-1", "::1:80", "unix:",
             "[host]:80", "host:²", "http://host:80"]
)  # fmt: skip
def test_anything_else_is_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match=r"cannot read the address .*; write host:port"):
        parse_address(text)
