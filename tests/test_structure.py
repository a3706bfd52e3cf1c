"""Searches the source for knowledge in the wrong place.

What a policy is made of is asked of its parts, never worked out from its class or its name; where a
register lies is known to the statistic alone. Both rot quietly, one convenient `isinstance` at a
time, so they are searched for here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coopbandits.core import policy
from coopbandits.core.registry import AGGREGATION_REGISTRY, REGISTRY

PACKAGE = Path(policy.__file__).parents[1]

SHIPPED = (*REGISTRY.own(), *AGGREGATION_REGISTRY.own())
CLASSES = {
    *(each.__name__ for each in SHIPPED), "AnyAggregation", "AnyPolicy", "CentralPolicy",
    "CentralProduct", "Policy", "Product",
}  # fmt: skip
NAMES = {each.name for each in SHIPPED}
SUBJECTS = ("policy", "aggregation")
"""Variables that end so hold a policy or an aggregation, and `policy.name` its name."""

TEXT_TESTS = ("startswith", "endswith", "partition", "rpartition", "removeprefix")
REGISTER_OWNERS = ("core/statistic/", "core/index/", "sim/cpu/", "sim/driver/", "sim/gpu/")
"""The statistic; indices, whose scratch is their own; kernels, whose parameters are its offsets."""

REGISTER_WORDS = ("num_arms", "reshape")
"""One of these stands in all that the search for registers finds: other files are not parsed."""

CLASS_EXCEPTIONS = {
    "sim/gpu/__init__.py": "the registry of kernels: by aggregation class",
    "sim/simulate.py": "refuses arguments that are no policy at all",
    "experiments/paper/claims.py": "the paper's claims are on the lines of its figures, by key",
    "testing/checks/calls.py": "refuses arguments that are no policy of agents",
    "testing/checks/central.py": "refuses arguments that are no central policy",
    "theory/assumptions.py": "a theorem on one policy refuses all others",
}
OFFSET_EXCEPTIONS = {
    "experiments/paper/claims.py": "the paper's claim that a message has 2K values",
    "core/draws.py": "two gamma variates per beta variate, not registers",
    "fleet/local/run.py": "the audit's accounts, added up from answers to applications",
}

PUBLIC_NUMBA = ("numba", "numba.extending")
NUMBA_EXCEPTION = "sim/cpu/compiling.py"

Search = Callable[[ast.AST], Iterator[ast.AST]]


def names_in(node: ast.AST) -> set[str]:
    """Return the last name of every expression in a node, so `UCB` of ``core.UCB``."""
    parts = list(ast.walk(node))
    plain = {each.id for each in parts if isinstance(each, ast.Name)}
    return plain | {each.attr for each in parts if isinstance(each, ast.Attribute)}


def is_subject(node: ast.AST) -> bool:
    """Say whether an expression is called a policy or an aggregation."""
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return name.lower().endswith(SUBJECTS)


def is_name_of_subject(node: ast.AST) -> bool:
    """Say whether an expression is a policy's or an aggregation's name or spelling."""
    if isinstance(node, ast.Call):
        node = node.func
    if not isinstance(node, ast.Attribute) or node.attr not in ("name", "spelling", "full_name"):
        return False
    return is_subject(node.value)


def holds_name(node: ast.AST) -> bool:
    """Say whether an expression is, or lists, the name of one that ships, written out."""
    constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return any(value in NAMES for value in constants if isinstance(value, str))


def begins_name(node: ast.AST) -> bool:
    """Say whether an expression is the beginning of such a name, as in ``startswith("tree-")``."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and len(text) > 2 and any(n.startswith(text) for n in NAMES)


def asks_for_classes(tree: ast.AST) -> Iterator[ast.AST]:
    """Find what works out from a class or a name what a policy or an aggregation is."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                found = bool(names_in(kinds) & CLASSES)
            case ast.Call(func=ast.Name(id="type"), args=[subject]):
                found = is_subject(subject)
            case ast.Call(func=ast.Attribute(value=subject, attr=attr)) if attr in TEXT_TESTS:
                found = is_name_of_subject(subject) or is_subject(subject)
                found |= any(map(begins_name, node.args))
            case ast.Compare(left=left, ops=ops, comparators=right) if not any(
                isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in ops
            ):
                sides = (left, *right)
                found = any(is_name_of_subject(each) or holds_name(each) for each in sides)
            case ast.MatchClass(cls=kind):
                found = bool(names_in(kind) & CLASSES)
            case _:
                found = False
        if found:
            yield node


def counts_registers(tree: ast.AST) -> Iterator[ast.AST]:
    """Find arithmetic on the layout [K sums | K counts | …]."""

    def is_arms(node: ast.AST | None) -> bool:
        return getattr(node, "id", getattr(node, "attr", "")) == "num_arms"

    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                twice = any(getattr(each, "value", None) == 2 for each in (left, right))
                found = twice and (is_arms(left) or is_arms(right))
            case ast.Slice(lower=lower, upper=upper):
                found = is_arms(lower) or is_arms(upper)
            case ast.Subscript(slice=place):
                sums = [each for each in ast.walk(place) if isinstance(each, ast.BinOp)]
                found = any(is_arms(each.left) or is_arms(each.right) for each in sums)
            case ast.Call(func=ast.Attribute(attr="reshape"), args=[ast.Constant(value=2), rest]):
                found = ast.unparse(rest) == "-1"
            case _:
                found = False
        if found:
            yield node


def asserted(tree: ast.AST) -> set[ast.AST]:
    """Return all nodes inside assert statements."""
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.Assert))
    return {inner for node in statements for inner in ast.walk(node)}


def search(
    function: Search, skipped: tuple[str, ...], words: tuple[str, ...] = ("",)
) -> dict[str, list[str]]:
    """Return offending lines by file, outside some folders, where a file has one of some words."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(skipped):
            continue
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in words):
            continue
        tree = ast.parse(text)
        # A kernel may assert what the table of kernels guarantees: that decides nothing.
        fine = asserted(tree) if place.startswith("sim/cpu/") else set()
        lines = [ast.unparse(node) for node in function(tree) if node not in fine]
        if lines:
            found[place] = lines
    return found


def test_nobody_works_out_what_a_policy_is() -> None:
    found = search(asks_for_classes, skipped=("core/",))
    assert {place: found[place] for place in found if place not in CLASS_EXCEPTIONS} == {}
    assert set(CLASS_EXCEPTIONS) <= set(found), "an exception that is not needed any more"


def test_only_the_statistic_knows_where_registers_lie() -> None:
    found = search(counts_registers, REGISTER_OWNERS, REGISTER_WORDS)
    assert {place: found[place] for place in found if place not in OFFSET_EXCEPTIONS} == {}
    assert set(OFFSET_EXCEPTIONS) <= set(found), "an exception that is not needed any more"


def imports_private_numba(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield imports of modules of numba that are not public, and of llvmlite."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [each.name for each in names]
            case ast.ImportFrom(module=str(module)):
                modules = [module]
            case ast.Attribute():  # as in ``numba.core.types``
                modules = [ast.unparse(node)] if ast.unparse(node) == "numba.core" else []
            case _:
                continue
        private = (each for each in modules if each not in PUBLIC_NUMBA)
        if any(each.partition(".")[0] in ("numba", "llvmlite") for each in private):
            yield node


def test_what_is_private_to_numba_is_used_in_one_file() -> None:
    assert list(search(imports_private_numba, (), ("numba", "llvmlite"))) == [NUMBA_EXCEPTION]


@pytest.mark.parametrize(
    ("line", "is_private"),
    [
        ("from llvmlite import ir", True),
        ("from numba.core import types", True),
        ("import numba.np.arrayobj", True),
        ("numba.core.types.int64", True),
        ("from numba import njit, types", False),
        ("from numba.extending import overload", False),
        ("numba.get_num_threads()", False),
    ],
)
def test_the_search_for_private_numba(line: str, is_private: bool) -> None:
    assert bool(list(imports_private_numba(ast.parse(line)))) == is_private


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(thing, DDUCB)",
        "isinstance(thing, str | core.Policy)",
        "issubclass(kind, (TreeSums, int))",
        "type(policy) in KERNELS",
        "KERNELS[type(parts.aggregation)]",
        "type(task.policy) is type(other)",
        "policy.name.startswith('x')",
        "task.policy.spelling.partition(':')",
        "text.startswith('central-')",
        "policy.full_name() == OTHER",
        "name == 'dducb'",
        "name in ('tree-sums', 'flooded-totals')",
        "match thing:\n    case CentralTotals(): pass",
    ],
)
def test_the_search_for_classes_finds(line: str) -> None:
    assert list(asks_for_classes(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(rounds, int)",
        "type(kind) in PLACES",
        "policy.central",
        "policy.spelling",
        "scenario.name == 'large'",
        "path.name.startswith('.')",
        "parse_policy('dducb')",
        "policies <= 3",
    ],
)
def test_the_search_for_classes_leaves_alone(line: str) -> None:
    assert not list(asks_for_classes(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "np.zeros(2 * num_arms)",
        "np.zeros(trial.num_arms * 2)",
        "totals[:num_arms]",
        "totals[self.num_arms :]",
        "totals[num_arms + arm]",
        "totals[[arm, self.num_arms + arm]]",
        "account.reshape(2, -1)",
    ],
)
def test_the_search_for_offsets_finds(line: str) -> None:
    assert list(counts_registers(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    ["np.zeros(num_arms)", "np.zeros((2, num_arms))", "15 + 3 * num_arms", "rows.reshape(2, 3)"],
)
def test_the_search_for_offsets_leaves_alone(line: str) -> None:
    assert not list(counts_registers(ast.parse(line)))


def test_asserts_of_kernels_are_left_alone() -> None:
    tree = ast.parse("assert isinstance(parts.aggregation, FloodedPulls)")
    assert set(asks_for_classes(tree)) <= asserted(tree)
