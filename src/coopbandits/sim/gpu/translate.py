"""An index's own Python functions as C++, so that kernels play the same formulas as everybody else.

Indices keep to floats, whole numbers, loops, `math`, constants and functions that do the same (see
`core.index.index`); that is a common part of Python and C++, and what is outside it is refused
with its line. Operations are written out in the same order, so that both round alike.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from coopbandits.core import draws
from coopbandits.core.index import Index, NormalDraw
from coopbandits.core.spelling import SHIPPED, is_ours

LEAVES = {
    draws.word_at: "word_at",
    draws.word_of: "word_of",
    draws.uniform_of: "uniform_of",
    draws.normal_of: "this->normal_of",
    draws.gamma_of: "this->gamma_of",
    draws.normal_quantile: "normal_quantile",
}
"""Functions that `leaves.h` and `choice.h` have under a name of their own."""

MANY = 1000
DRAWS = {"this->normal_of": 1, "this->gamma_of": MANY}
"""How many normals a leaf draws; a gamma draws until one fits."""

BY_ARM = ((NormalDraw.prepare, NormalDraw.value),)
"""Where `prepare` writes the same of every arm, and `value` reads no more of it than that."""

WORDS = ("word_at", "word_of")
OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "&&", ast.Or: "||", ast.USub: "-",
    ast.Not: "!", ast.UAdd: "+",
}  # fmt: skip
MATH = (
    "sqrt",
    "log",
    "exp",
    "expm1",
    "log1p",
    "pow",
    "copysign",
    "floor",
    "ceil",
    "fabs",
    "lgamma",
)
TYPES = {"float": "real", "int": "long long", "bool": "bool", "None": "void"}


CHECKS = """
    bool raised = false;  // whether plain Python would have raised an error
    __device__ __forceinline__ real quotient(real a, real b) {
        raised |= b == real(0);
        return a / b;
    }
    __device__ __forceinline__ real checked(real found, real x, real y = 0) {
        raised |= found - found != real(0) && x - x == real(0) && y - y == real(0);
        return found;
    }
"""
"""What custom indices divide and compute with, as `sim.cpu.guards` does for the CPU engine."""


class CannotTranslateError(Exception):
    """A function is outside what is translated; the message says where."""


def draws_one(index: Index) -> bool:
    """Return whether an index draws one normal per arm, whatever it has seen."""
    book = _booked(index.prepare, index.value, index.pick, not is_ours(index))
    draws_each = index.pick is None and (book.draws["prepare"], book.draws["value"]) == (0, 1)
    return draws_each and "value" not in book.branching


@cache
def _booked(prepare: Any, value: Any, pick: Any, is_checked: bool) -> _Book:
    book = _Book(is_checked)
    for name, function in (("prepare", prepare), ("value", value), ("pick", pick)):
        if function is not None:
            book.add(function, name)
    return book


def index_source(index: Index) -> str:
    """Return the functions of an index as the C++ class `Index`, and how it draws."""
    book = _booked(index.prepare, index.value, index.pick, not is_ours(index))
    body = textwrap.indent("\n".join(book.texts), "    ")
    return (
        f"#define ONE_NORMAL {int(draws_one(index))}\n"
        f"#define BY_ARM {int((index.prepare, index.value) in BY_ARM)}\n"
        '#include "draws.h"\n'
        "template <bool ASKS>\nstruct Index : Draws<ASKS> {\n"
        "    __device__ explicit Index(const real2* cubics_) : Draws<ASKS>(cubics_) {}\n"
        f"{CHECKS if book.is_checked else ''}{body}\n}};\n"
    )


class _Book:
    """All functions translated so far, each with the name it has in C++.

    If it `is_checked`, they note where Python would raise, unless they are ours.
    """

    def __init__(self, is_checked: bool) -> None:
        self.is_checked = is_checked
        self.names: dict[Any, str] = {}
        self.returns: dict[str, str] = {}
        self.draws: dict[str, int] = {}
        self.branching: set[str] = set()
        self.texts: list[str] = []

    def add(self, function: Any, name: str | None = None) -> str:
        """Translate a function and what it calls; return its name."""
        if function in LEAVES:
            return LEAVES[function]
        if function not in self.names:
            if not isinstance(function, FunctionType) or function.__closure__:
                raise CannotTranslateError(f"{function!r} is no plain function")
            self.names[function] = name or f"{function.__name__}_{len(self.names)}"
            made = _Function(function, self.names[function], self)
            self.texts.append(made.text())
            self.draws[self.names[function]] = made.draws
            if made.branches:
                self.branching.add(self.names[function])
        return self.names[function]


class _Function:
    """One function on its way to C++."""

    def __init__(self, function: FunctionType, name: str, book: _Book) -> None:
        self.function, self.name, self.book = function, name, book
        self.is_checked = book.is_checked and not function.__module__.startswith(SHIPPED)
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError) as error:
            raise CannotTranslateError(
                f"the source of {function.__name__} is not at hand"
            ) from error
        node = ast.parse(source).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise CannotTranslateError(f"{function.__name__} is no plain function")
        self.node = node
        self.kinds: dict[str, str] = {}
        self.draws, self.per_call = 0, 1
        choices = (ast.If, ast.IfExp, ast.While, ast.BoolOp)
        self.branches = any(isinstance(each, choices) for each in ast.walk(node))

    def text(self) -> str:
        templates, given = [], []
        for argument in self.node.args.args:
            kind = TYPES.get(ast.unparse(argument.annotation) if argument.annotation else "")
            self.kinds[argument.arg] = kind or "?"
            if kind in ("real", "bool"):
                given.append(f"{kind} {argument.arg}_")
                continue
            templates.append(f"class {argument.arg.upper()}_")
            given.append(f"{argument.arg.upper()}_{'' if kind else '&&'} {argument.arg}_")
        returns = self._returns()
        self.book.returns[self.name] = returns
        arguments = set(self.kinds)
        lines = self._block([each for each in self.node.body if not _is_docstring(each)])
        declared = [
            f"{kind} {name}_;" for name, kind in self.kinds.items() if name not in arguments
        ]
        head = f"template <{', '.join(templates)}>\n" if templates else ""
        body = textwrap.indent("\n".join([*declared, *lines]), "    ")
        start = f"{head}__device__ __forceinline__ {returns} {self.name}({', '.join(given)})"
        return f"{start} {{\n{body}\n}}"

    def _returns(self) -> str:
        said = ast.unparse(self.node.returns) if self.node.returns else "float"
        if said.startswith("tuple"):
            return "Two<real, real>"
        if said in TYPES:
            return TYPES[said]
        raise self._refused(self.node, f"returns {said}")

    def _refused(self, node: Any, what: str) -> CannotTranslateError:
        return CannotTranslateError(f"line {node.lineno} of {self.function.__name__} {what}")

    def _block(self, nodes: list[ast.stmt]) -> list[str]:
        return [line for node in nodes for line in self._statement(node)]

    def _statement(self, node: ast.stmt) -> list[str]:
        match node:
            case ast.Return(value=None) | ast.Return(value=ast.Constant(value=None)):
                return ["return;"]
            case ast.Return(value=ast.Tuple(elts=[first, second])):
                return [f"return two<real, real>({self._(first)}, {self._(second)});"]
            case ast.Return(value=ast.expr() as value):
                return [f"return {self._(value)};"]
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._assign(target, value)
            case ast.AugAssign(target=target, op=op, value=value) if type(op) in (
                ast.Add, ast.Sub, ast.Mult, ast.Div
            ):  # fmt: skip
                if isinstance(op, ast.Div):
                    return [f"{self._(target)} = {self._quotient(target, value)};"]
                return [f"{self._(target)} {OPERATORS[type(op)]}= {self._(value)};"]
            case ast.If(test=test, body=body, orelse=orelse):
                lines = [f"if ({self._(test)}) {{", *_inside(self._block(body)), "}"]
                return [*lines, "else {", *_inside(self._block(orelse)), "}"] if orelse else lines
            case ast.While(test=test, body=body, orelse=[]):
                self.per_call = MANY
                return [f"while ({self._(test)}) {{", *_inside(self._block(body)), "}"]
            case ast.For(orelse=[]):
                return self._loop(node)
            case ast.Delete() | ast.Pass():
                return []
            case ast.Break():
                return ["break;"]
            case ast.Continue():
                return ["continue;"]
            case ast.Expr(value=ast.Call() as call):
                return [f"{self._(call)};"]
        raise self._refused(node, f"is {type(node).__name__}, which is not translated")

    def _assign(self, target: ast.expr, value: ast.expr) -> list[str]:
        if isinstance(target, ast.Tuple):
            return self._unpack(target, value)
        text = self._(value)
        if isinstance(target, ast.Name):
            self.kinds.setdefault(target.id, self._kind(value))
        return [f"{self._(target)} = {text};"]

    def _unpack(self, target: ast.Tuple, value: ast.expr) -> list[str]:
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            # All values are computed before the first is assigned.
            pairs = list(zip(target.elts, value.elts, strict=True))
            for each, one in pairs:
                if isinstance(each, ast.Name):
                    self.kinds.setdefault(each.id, self._kind(one))
            made = [f"auto new_{at} = {self._(one)};" for at, (_, one) in enumerate(pairs)]
            put = [f"{self._(each)} = new_{at};" for at, (each, _) in enumerate(pairs)]
            return ["{", *_inside([*made, *put]), "}"]
        if len(target.elts) != 2:
            raise self._refused(target, "takes more than two apart")
        for each in target.elts:
            if isinstance(each, ast.Name):
                self.kinds.setdefault(each.id, "real")
        first, second = (self._(each) for each in target.elts)
        lines = [f"auto both = {self._(value)};", f"{first} = both.first;"]
        return ["{", *_inside([*lines, f"{second} = both.second;"]), "}"]

    def _loop(self, node: ast.For) -> list[str]:
        if not isinstance(node.target, ast.Name):
            raise self._refused(node, "loops over several at once")
        name = node.target.id
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=[end]):
                first, last = "0", self._(end)
            case ast.Call(func=ast.Name(id="range"), args=[start, end]):
                first, last = self._(start), self._(end)
            case ast.Name() if isinstance(self._global(node.iter), tuple):
                return self._loop_over_constants(node, name)
            case _:
                raise self._refused(node, "loops over what is no range")
        before, once = self.kinds.get(name), self.per_call
        self.kinds[name], self.per_call = "long long", MANY
        body = self._block(node.body)
        self.per_call = once
        if before is None:
            del self.kinds[name]
        head = f"UNROLL for (int {name}_ = {first}; {name}_ < {last}; {name}_++) {{"
        return [head, *_inside(body), "}"]

    def _loop_over_constants(self, node: ast.For, name: str) -> list[str]:
        numbers = self._global(node.iter)
        table = ", ".join(_literal(float(number)) for number in numbers)
        self.kinds.setdefault(name, "real")
        head = f"for (int at_{name} = 0; at_{name} < {len(numbers)}; at_{name}++) {{"
        set_it = f"{name}_ = table_{name}[at_{name}];"
        table = f"const real table_{name}[] = {{{table}}};"
        return ["{", table, head, *_inside([set_it, *self._block(node.body)]), "}", "}"]

    def _global(self, node: ast.expr) -> Any:
        """Return the value of a name, or of a name in a module, that is not the function's own."""
        if isinstance(node, ast.Name) and node.id not in self.kinds:
            scope = self.function.__globals__
            builtins = scope["__builtins__"]
            builtins = builtins if isinstance(builtins, dict) else vars(builtins)
            return scope.get(node.id, builtins.get(node.id))
        if isinstance(node, ast.Attribute):
            module = self._global(node.value)
            if isinstance(module, ModuleType):
                return getattr(module, node.attr, None)
        return None

    def _kind(self, node: ast.expr) -> str:
        """Return the type of an expression: whole numbers and words where all parts are such."""
        match node:
            case ast.Constant(value=bool()) | ast.Compare():
                return "bool"
            case ast.Constant(value=int()):
                return "long long"
            case ast.Name(id=name) if name in self.kinds:
                return "long long" if self.kinds[name] == "?" else self.kinds[name]
            case ast.Call(func=func):
                function = self._global(func)
                if function in (len, int):
                    return "long long"
                if isinstance(function, FunctionType):
                    name = self.book.add(function)
                    return "word_t" if name in WORDS else self.book.returns.get(name, "real")
            case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult()):
                kinds = {self._kind(left), self._kind(right)}
                if "real" not in kinds:
                    return "word_t" if "word_t" in kinds else "long long"
            case ast.UnaryOp(operand=operand):
                return self._kind(operand)
            case ast.IfExp(body=body, orelse=orelse):
                if self._kind(body) == self._kind(orelse):
                    return self._kind(body)
        found = self._global(node)
        return "long long" if type(found) is int else "real"

    def _(self, node: ast.expr) -> str:
        found = self._global(node)
        if isinstance(found, int | float):
            return _literal(found)
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return _literal(value)
            case ast.Name(id=name) if name in self.kinds:
                return f"{name}_"  # nothing in C++ is called so
            case ast.BinOp(
                left=ast.Constant(value=1.0),
                op=ast.Div(),
                right=ast.Call(func=ast.Attribute(attr="sqrt") as func, args=[under]),
            ) if self._global(func.value) is math and not self.is_checked:
                return f"rsqrt(real({self._(under)}))"  # cheaper on a device, in one
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._quotient(left, right)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(left, right)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return f"({self._(left)} {OPERATORS[type(op)]} {self._(right)})"
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
                return f"({OPERATORS[type(op)]}{self._(operand)})"
            case ast.BoolOp(op=op, values=values):
                return "(" + f" {OPERATORS[type(op)]} ".join(map(self._, values)) + ")"
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compare(left, ops, others)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"({self._(test)} ? {self._(body)} : {self._(orelse)})"
            case ast.Attribute(value=ast.Name(id="estimate"), attr=attr):
                return f"estimate_.{attr}"
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0 | 1 as at)):
                return f"{self._(call)}.{'second' if at else 'first'}"
            case ast.Subscript(value=value, slice=place):
                return f"{self._(value)}[{self._(place)}]"
            case ast.Call(func=func, args=given, keywords=[]):
                return self._call(node, func, given)
        raise self._refused(node, f"has {ast.unparse(node)}, which is not translated")

    def _power(self, base: ast.expr, exponent: ast.expr) -> str:
        if isinstance(exponent, ast.Constant) and exponent.value == 2:
            return f"({self._(base)} * {self._(base)})"
        return self._math("pow", [self._(base), self._(exponent)])

    def _quotient(self, left: ast.expr, right: ast.expr) -> str:
        if self.is_checked:
            return f"this->quotient(real({self._(left)}), real({self._(right)}))"
        return f"(real({self._(left)}) / real({self._(right)}))"

    def _math(self, name: str, texts: list[str]) -> str:
        given = ", ".join(f"real({text})" for text in texts)
        return (
            f"this->checked(::{name}({given}), {given})"
            if self.is_checked
            else f"::{name}({given})"
        )

    def _compare(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> str:
        sides, tests = [left, *others], []
        for op, one, other in zip(ops, sides, others, strict=False):
            if type(op) not in OPERATORS:
                raise self._refused(one, f"compares by {type(op).__name__}")
            tests.append(f"{self._(one)} {OPERATORS[type(op)]} {self._(other)}")
        return "(" + " && ".join(tests) + ")"

    def _call(self, node: ast.expr, func: ast.expr, given: list[ast.expr]) -> str:
        function, texts = self._global(func), [self._(each) for each in given]
        if function is len and ast.unparse(given[0]) in (
            "estimate.sums",
            "estimate.counts",
            "values",
        ):
            return "K"
        if function is len and ast.unparse(given[0]) == "estimate.squares":
            return "0"  # statistics with squares have no kernel
        if function in (min, max) and len(texts) > 1:
            name, nested = ("smaller" if function is min else "larger"), texts[0]
            for text in texts[1:]:
                nested = f"{name}({nested}, {text})"
            return nested
        if function in (int, float, bool, abs):
            name = {int: "(long long)", float: "real", bool: "bool", abs: "::fabs"}[function]
            return f"{name}({texts[0]})"
        if (
            isinstance(func, ast.Attribute)
            and self._global(func.value) is math
            and func.attr in MATH
        ):
            return self._math(func.attr, texts)
        if isinstance(function, FunctionType):
            name = self.book.add(function)
            self.draws += self.per_call * DRAWS.get(name, self.book.draws.get(name, 0))
            self.branches |= name in self.book.branching
            return f"{name}({', '.join(texts)})"
        raise self._refused(node, f"calls {ast.unparse(func)}, which is not translated")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _inside(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _literal(value: float) -> str:
    """Return a number of Python as one of C++, to the bit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}" if abs(value) < 1 << 31 else f"{value}ll"
    if math.isinf(value):
        return "INF" if value > 0 else "(-INF)"
    return f"real({float(value)!r})"
