from __future__ import annotations

from coopbandits.fleet.document.content import differences, read_document

from .made import signed, text


def test_what_changes_is_told_line_by_line() -> None:
    old = read_document(
        signed(
            1,
            revoked=["a"],
            members=[{"id": "b", "address": "b:1"}, {"id": "c", "address": "c:1"}],
            settings={"rounds_per_second": 5.0},
            bandits={"button": {"arms": ["red", "blue"]}},
        ).content
    )
    new = read_document(
        signed(
            2,
            operators=(2,),
            members=[{"id": "b", "address": "b:2"}],
            settings={"max_pulls_per_second": 10.0},
            bandits={"button": {"arms": ["red", "blue", "green"]}, "page": {}},
        ).content
    )
    assert differences(old, new) == [
        '~ [bandits.button] arms: ["red", "blue"] -> ["red", "blue", "green"]',
        "~ [cluster] version: 1 -> 2",
        "+ [settings] max_pulls_per_second = 10",
        "- [settings] rounds_per_second = 5",
        "+ bandit page",
        "~ member b: b:1 -> b:2",
        "- member c = c:1",
        f"+ operator {text(2)}",
        "- revoked a",
    ]
    assert differences(new, new) == []
    assert differences(None, old)[0].startswith("+ ")
