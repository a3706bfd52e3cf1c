"""One door for names: ours, registered ones, entry points, and `module:Name`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coopbandits.core import DDUCB, IndependentUCB, InputError
from coopbandits.core.registry import Registry

SOURCE = """
class Small: pass
class Big:
    class Inner: pass
    @classmethod
    def make(cls): pass
class Plain:
    name = "plain"
COUNT = 3
"""

Write = Callable[..., None]


def is_class(thing: Any) -> bool:
    return isinstance(thing, type)


class Ours:
    pass


@pytest.fixture
def things() -> Registry[Any]:
    known = {"ours": Ours, "other": int}
    return Registry("thing", "coopbandits.test_things", known, is_class, "a class")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules into a folder on the path; forget them afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def run(name: str, text: str = SOURCE) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    yield run
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def offer(write: Write, package: str, *lines: str) -> None:
    """Install a package that has nothing but entry points."""
    folder = f"{package.replace('-', '_')}-1.dist-info"
    write(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    text = "\n".join(["[coopbandits.test_things]", *lines, ""])
    write(f"{folder}/entry_points.txt", text)


def test_ours(things: Registry[Any]) -> None:
    assert things.names() == ["ours", "other"]
    assert things.find("ours") == (Ours, "")
    assert things.find(" ours : a=1,b=x:y ") == (Ours, "a=1,b=x:y")
    assert things.name_of(Ours) == "ours"


def test_registered(things: Registry[Any]) -> None:
    assert things.register("mine", DDUCB) is DDUCB
    assert things.names() == ["ours", "other", "mine"]
    assert things.find("mine:eta=3") == (DDUCB, "eta=3")
    assert things.name_of(DDUCB) == "mine"
    things.register("mine", DDUCB)  # once more changes nothing
    things.register("alias", Ours)  # nor does a second name change a spelling
    assert things.name_of(Ours) == "ours"
    assert things.find("alias") == (Ours, "")


def test_what_is_defined_again_takes_its_own_name(things: Registry[Any]) -> None:
    old, new = (type("Again", (), {"__module__": "notebook"}) for _ in range(2))
    things.register("again", old)
    things.register("again", new)
    assert things.find("again")[0] is new


@pytest.mark.parametrize(
    ("name", "thing", "sentence"),
    [
        ("ours", DDUCB, "'ours'"),
        ("mine", IndependentUCB, "'mine'"),
        ("a:b", DDUCB, "'a:b'"),
        ("", DDUCB, "''"),
        (3, DDUCB, r"\b3\b"),
        ("three", 3, r"'three'.* 3\b.*class"),
    ],
)
def test_refused_names(things: Registry[Any], name: Any, thing: Any, sentence: str) -> None:
    things.register("mine", DDUCB)
    before = things.names()
    with pytest.raises(InputError, match=sentence):
        things.register(name, thing)
    assert things.names() == before


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        ("names_a:Small", "Small", ""),
        (" names_a:Small: x=1,y=2:3 ", "Small", "x=1,y=2:3"),
        ("names_a:Big.Inner:k", "Big.Inner", "k"),
    ],
)
def test_own(things: Registry[Any], write: Write, text: str, name: str, rest: str) -> None:
    write("names_a.py")
    found, left = things.find(text)
    assert (found.__module__, found.__qualname__, left) == ("names_a", name, rest)
    assert things.name_of(found) == f"names_a:{name}"
    assert things.find(things.name_of(found))[0] is found


def test_a_module_in_a_package(things: Registry[Any], write: Write) -> None:
    write("names_p/__init__.py", "")
    write("names_p/inside.py")
    found, _ = things.find("names_p.inside:Small")
    assert things.name_of(found) == "names_p.inside:Small"


def test_what_cannot_be_found_again_has_its_bare_name(things: Registry[Any]) -> None:
    class Local:
        pass

    for module in ("__main__", "__mp_main__"):
        named = type("Script", (), {"__module__": module, "name": "script"})
        heir = type("Heir", (named,), {"__module__": module})
        assert things.name_of(named) == "script"
        assert things.name_of(heir) == "Heir"  # not the name of another
    assert things.name_of(Local).endswith("<locals>.Local")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("outs", "'outs'.*other, ours.*'ours'"),
        ("outs:k=3", "'outs'.*other, ours.*'ours'"),
        ("outs:7", "unknown thing 'outs'"),
        ("", "unknown thing ''"),
        (
            "names_none:Small",
            "names_none:Small.*PYTHONPATH",
        ),
        ("names_b.sub:Small", r"names_b\.sub:Small"),
        ("outs:Small", "outs:Small.*'ours'"),
        (
            "names_bad:Small",
            "names_bad.*ValueError: two lines",
        ),
        ("names_needs:Small", "names_needs.*ModuleNotFoundError.*no_such_library"),
        ("names_exit:Small", "names_exit.*SystemExit: 3"),
        ("names_syntax:Small", "names_syntax.*SyntaxError.*line 1"),
        (
            "names_b:Smal",
            "names_b.*'Smal'.*Big, Plain, Small.*'Small'",
        ),
        ("names_b:Big.Iner", r"names_b\.Big.*'Iner'.*'Inner'"),
        ("names_b:COUNT", r"names_b:COUNT.* 3\b.*class"),
        ("names_b:Big.make:k=1", r"names_b:Big\.make.*<bound method.*class"),
    ],
)
def test_mistakes(things: Registry[Any], write: Write, text: str, sentence: str) -> None:
    write("names_b.py")
    write("names_bad.py", "raise ValueError('two\\nlines')")
    write("names_needs.py", "import no_such_library")
    write("names_exit.py", "import sys; sys.exit(3)")
    write("names_syntax.py", "def")
    with pytest.raises(InputError, match=sentence) as caught:
        things.find(text)
    assert "\n" not in str(caught.value)


def test_entry_points(things: Registry[Any], write: Write) -> None:
    write("names_c/__init__.py", "from names_c.deep import Small")
    write("names_c/deep.py")
    offer(write, "names-c", "small = names_c:Small", "ours = names_c.deep:Big")
    things.register("mine", DDUCB)
    assert things.names() == ["ours", "other", "mine", "small"]
    assert "names_c" not in sys.modules
    assert things.find("ours") == (Ours, "")
    assert "names_c" not in sys.modules  # ours need no look at packages
    found, rest = things.find("small:k=1")
    assert (found.__module__, found.__qualname__, rest) == ("names_c.deep", "Small", "k=1")
    assert things.name_of(found) == "small"
    assert things.name_of(things.find("names_c.deep:Big")[0]) == "names_c.deep:Big"
    with pytest.raises(InputError, match=r"'smal'.*'small'"):
        things.find("smal")


def test_a_things_name_does_not_depend_on_how_it_was_found(
    things: Registry[Any], write: Write
) -> None:
    write("names_d.py")
    offer(write, "names-d", "broken = names_d:Nothing", "small = names_d:Small")
    assert things.name_of(things.find("names_d:Small")[0]) == "small"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "gone",
            "'gone'.*names-e.*ModuleNotFoundError.*'names_gone'",
        ),
        ("bad", "'bad'.*names-e.*AttributeError"),
        ("count", r"'count'.*names-e.* 3\b.*class"),
        (
            "twice",
            "'twice'.*names-[ef], names-[ef].*names_e:(Small|Big)",
        ),
    ],
)
def test_broken_entry_points(things: Registry[Any], write: Write, text: str, sentence: str) -> None:
    write("names_e.py")
    offer(
        write, "names-e", "gone = names_gone:X", "bad = names_e:Nothing", "count = names_e:COUNT",
        "twice = names_e:Small",
    )  # fmt: skip
    offer(write, "names-f", "twice = names_e:Big")
    with pytest.raises(InputError, match=sentence):
        things.find(text)


def test_ours_may_be_registered_once_more(things: Registry[Any]) -> None:
    assert things.register("ours", Ours) is Ours


def test_an_empty_module(things: Registry[Any], write: Write) -> None:
    write("names_g.py", "for name in list(globals()):\n    del globals()[name]\ndel name")
    with pytest.raises(InputError, match=r"names_g.*Small"):
        things.find("names_g:Small")
