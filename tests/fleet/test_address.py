from __future__ import annotations

from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_address, parse_place, show_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:8400", Address("127.0.0.1", 8400)),
        ("shop-1.example:0", Address("shop-1.example", 0)),
        ("[::1]:65535", Address("::1", 65535)),
        ("unix:/run/agent.sock", Path("/run/agent.sock")),
        ("unix:agent.sock", Path("agent.sock")),
    ],
)
def test_a_place_is_read_and_written(text: str, place: Address | Path) -> None:
    assert parse_place(text) == place
    assert show_place(place) == text


@pytest.mark.parametrize(
    "text", ["", "8400", ":8400", "host:", "host:x", "host:65536", "host:-1", "::1:80", "unix:",
             "[host]:80", "host:²", "http://host:80", "-host:80", "host.:80", "/run/agent.sock"]
)  # fmt: skip
def test_anything_else_is_a_sentence(text: str) -> None:
    for parse in (parse_address, parse_place):
        with pytest.raises(InputError, match=r"address.*host:port"):
            parse(text)


def test_what_only_this_machine_can_reach() -> None:
    inside = ("127.0.0.1", "127.9.9.9", "::1", "localhost")
    outside = ("192.168.0.1", "::", "10.0.0.1", "shop.example", "localhost.example")
    assert all(Address(host, 1).is_loopback for host in inside)
    assert not any(Address(host, 1).is_loopback for host in outside)
