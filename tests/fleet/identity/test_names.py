from __future__ import annotations

from coopbandits.fleet.identity.names import NODE_ID, agent_number


def test_ids_are_labels_of_dns_names() -> None:
    assert all(map(NODE_ID.fullmatch, ("a", "7", "shop-1", "a--b", "x" * 63)))
    assert not any(map(NODE_ID.fullmatch, ("", "-a", "a-", "A", "a.b", "a_b", "é", "x" * 64)))


def test_agent_numbers_are_exact_in_a_float() -> None:
    numbers = [agent_number(f"shop-{k}") for k in range(2000)]
    assert len(set(numbers)) == 2000
    assert max(numbers) > 2**47
    assert all(0 <= number < 2**48 and int(float(number)) == number for number in numbers)
    assert agent_number("shop-1") == 0xF3870F560C2E  # `printf shop-1 | b2sum -l 48`
