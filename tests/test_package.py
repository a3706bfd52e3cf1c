from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, files, version
from importlib.resources import files as resources
from pathlib import Path

import pytest

import coopbandits
import coopbandits.fleet

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "scipy", "networkx", "numba", "xarray", "h5py", "matplotlib", "rich", "typer")
STABLE = ("DDUCB", "GaussianBandit", "BernoulliBandit", "Network", "Result", "simulate")


def loaded_by(*statements: str) -> list[set[str]]:
    """Return what a process has loaded after each of some statements."""
    code = ["import sys"]
    for statement in statements:
        code += [statement, "print(*{name.split('.')[0] for name in sys.modules})"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_public_names_resolve() -> None:
    for name in coopbandits.__all__:
        value = getattr(coopbandits, name)
        # The others are types such as Vector.
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__name__ == name
            assert value.__doc__


def test_public_names() -> None:
    assert dir(coopbandits) == sorted(coopbandits.__all__)
    assert len(set(coopbandits.__all__)) == len(coopbandits.__all__)
    assert set(STABLE) <= set(coopbandits.__all__)
    # What type checkers see is what is loaded.
    source = Path(str(coopbandits.__file__)).read_text(encoding="utf-8")
    typed = source.split("if TYPE_CHECKING:")[1].split("\n_HOMES")[0]
    assert set(coopbandits.__all__) <= set(re.findall(r"\w+", typed))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'coopbandits'.*'no_such'"):
        _ = coopbandits.no_such
    assert not hasattr(coopbandits, "DDUBC")


def test_importing_the_package_loads_no_library() -> None:
    (loaded,) = loaded_by("import coopbandits; dir(coopbandits)")
    assert not loaded & set(HEAVY)


def test_a_command_loads_what_takes_time_only_where_it_is_used() -> None:
    """Such as networkx for graphs that it makes, and matplotlib where something is drawn."""
    at_first, with_a_graph, meanwhile = loaded_by(
        "import coopbandits.cli.simulations as one; one.Network.from_spec('grid:2x3')",
        "one.Network.from_spec('barbell:3,1')",
        "one.load_meanwhile(); import threading; [t.join() for t in threading.enumerate()[1:]]",
    )
    assert {"scipy", "xarray"} <= at_first
    assert not at_first & {"networkx", "matplotlib", "numba"}
    assert "networkx" in with_a_graph
    assert not with_a_graph & {"matplotlib", "numba"}
    assert "matplotlib" in meanwhile


def test_an_agent_needs_numpy_alone() -> None:
    (loaded,) = loaded_by("import coopbandits; coopbandits.DDUCB; import coopbandits.core")
    assert "numpy" in loaded
    assert not loaded & (set(HEAVY) - {"numpy"})


def test_types_are_shipped() -> None:
    assert resources("coopbandits").joinpath("py.typed").is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/coopbandits"]
    assert "Typing :: Typed" in project["project"]["classifiers"]


def test_one_version_everywhere() -> None:
    assert version("coopbandits") == version("coopbandits-base") == coopbandits.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [coopbandits.__version__]


def test_the_command_is_installed_once() -> None:
    (script,) = entry_points(group="console_scripts", name="coopbandits")
    assert script.value == "coopbandits.__main__:main"
    assert callable(script.load())
    assert files("coopbandits")


@pytest.mark.parametrize("name", ["AsyncClient", "Client", "LocalAgent"])
def test_names_of_the_fleet(name: str) -> None:
    value = getattr(coopbandits, name)
    assert value.__name__ == name
    assert value is getattr(coopbandits.fleet, name)
    agent = {"numpy"} if name == "LocalAgent" else set()
    (loaded,) = loaded_by(f"import coopbandits; coopbandits.{name}")
    assert loaded & {"numpy", *HEAVY} == agent


@pytest.mark.parametrize(
    ("missing", "statement"),
    [("httptools", "coopbandits.Client"), ("msgspec", "from coopbandits import LocalAgent")],
)
def test_without_the_extra_a_sentence_says_what_to_install(missing: str, statement: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import coopbandits; {statement}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"coopbandits.core.errors.InputError: {missing} is not installed; install what a fleet "
        "needs with: pip install 'coopbandits[fleet]'"
    )


def test_a_star_import_works_without_the_extra() -> None:
    (loaded,) = loaded_by("sys.modules['msgspec'] = None; from coopbandits import *")
    assert "xarray" in loaded


def test_an_unknown_name_of_the_fleet_is_an_attribute_error() -> None:
    assert not hasattr(coopbandits.fleet, "Desk")
