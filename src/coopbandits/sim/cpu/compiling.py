"""What needs the inside of numba, in this file alone.

*Functions that are parts of their callers.* numba's own `jit` optimises a function and makes
machine code of it before it goes on with whoever calls it, and there does both again with all that
is called: what a kernel calls through two others is made four times. It also counts references to
arrays in all of them. Here only the kernel is compiled, and only it holds arrays: an `inner`
function is translated once, into code for LLVM, which is added to every kernel that needs it.

With `inner` returning ``jit(**_OPTIONS, **options)(function)``, all kernels take 175 s of processor
time to compile instead of 131, by ``time python -m tests.compile_kernels`` with an empty
`NUMBA_CACHE_DIR`. The first simulation of a policy, and then an agent-round (100 agents, a cycle,
5 arms, one thread) take:

=========== ============== =================
policy      first, s       agent-round, ns
=========== ============== =================
dducb        6.7 →  10.5     10.9 →   10.9
coop-ucb2    6.4 →   7.2     29.4 →   30.9
central-ucb  5.0 →   6.4     97.2 →  198.3
dec-ucb      9.9 →  13.0    199.5 →  264.5
flood-ucb    5.9 →  10.1   1106   → 1107
=========== ============== =================

*Parts of arrays* returned without counting references to these.

*Calls of C functions at an address*, by which one kernel plays any index and any reward function,
and one loop over threads serves all kernels. *Hints for branches*, which numba has none of.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from llvmlite.binding import parse_assembly
from numba import errors, jit, types
from numba.core import cgutils, compiler, event
from numba.core.codegen import CodeLibrary
from numba.core.registry import cpu_target
from numba.extending import intrinsic, lower_builtin, overload, type_callable

from coopbandits import core
from coopbandits.network.faults import schedule
from coopbandits.problems import rewards, tables

_OPTIONS = {
    "nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy",
}  # fmt: skip

alone = partial(jit, **_OPTIONS)
"""numba's own `jit`, for loops over values: where little is around them, they vectorise better.
As `inner` functions, averaging made coop-UCB 3 % slower."""

overload_view = partial(overload, strict=False, jit_options={"_nrt": True, "forceinline": True})
"""As `overload`, for functions that return a part of an array in code that counts no references,
from which numba returns only what it was given."""

_COMPILES = "numba:compile"
"""What numba triggers, too, for its own kernels."""

_held: WeakKeyDictionary[CodeLibrary, set[Part]] = WeakKeyDictionary()
"""Which parts the library of a kernel has."""


@contextmanager
def no_collections() -> Iterator[None]:
    """Suspend garbage collection, which takes a tenth of compile time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def inner(function: Any = None, **options: Any) -> Any:
    """As `numba.jit`, with its options, for functions that only kernels call.

    One that makes an array, or returns one, has to say that it `allocates`. In others no references
    to arrays are counted: their callers hold these. One that `is_long` to compile is announced.
    """
    return partial(Inner, **options) if function is None else Inner(function, **options)


for_threads = partial(inner, is_long=True)
"""As `inner`, for what is handed to threads by `launch`."""


class Inner:
    """A function that is compiled where a kernel calls it."""

    def __init__(
        self, function: Callable[..., Any], *, allocates: bool = False, is_long: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        flags = compiler.Flags()
        cpu_target.options.parse_as_flags(flags, {**_OPTIONS, **options})
        flags.nrt = allocates
        flags.no_compile = True  # not yet: the kernel is, as a whole
        self.py_func, self.flags, self.is_long = function, flags, is_long
        self.parts: dict[Any, Part] = {}
        type_callable(self)(self._typer)
        lower_builtin(self, types.VarArg(types.Any))(self._call)

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args)

    def part(self, kinds: tuple[Any, ...]) -> Part:
        """Return the code for arguments of some kinds."""
        if kinds not in self.parts:
            with event.trigger_event(_COMPILES) if self.is_long else nullcontext():
                self.parts[kinds] = Part(self.py_func, kinds, self.flags)
        return self.parts[kinds]

    def _typer(self, context: Any) -> Any:
        def returned(*kinds: Any) -> Any:
            return self.part(kinds).signature.return_type

        del context
        returned.pysig = inspect.signature(self.py_func)  # type: ignore[attr-defined]  # as asked
        return returned

    def _call(self, context: Any, builder: Any, signature: Any, args: Any) -> Any:
        part = self.part(signature.args)
        return context.call_internal(builder, part.add(context), signature, args)


class Part(CodeLibrary):
    """The code of one function for arguments of some kinds, and what it calls."""

    def __init__(self, function: Callable[..., Any], kinds: Any, flags: Any) -> None:
        context = cpu_target.target_context
        super().__init__(context.codegen(), function.__qualname__)
        self.called: list[CodeLibrary] = []
        made = compiler.compile_extra(
            cpu_target.typing_context, context, function, kinds, None, flags, {}, self
        )
        self.signature, self.described = made.signature, made.fndesc

    def add(self, context: Any) -> Any:
        """Add all to what is being compiled, and return the description that a call takes."""
        library = context.active_code_library
        if isinstance(library, Part):
            library.called.append(self)
        elif self not in _held.setdefault(library, set()):
            _held[library].add(self)
            self._add_to(library)
        return self.described

    def _add_to(self, library: CodeLibrary) -> None:
        """Add this and all that is called to the library of a kernel."""
        whole = self.module.clone()
        whole.get_function(self.described.llvm_func_name).linkage = "weak_odr"  # is kept
        parts = [self]
        for part in parts:  # callers first: the linker leaves out what nobody has called so far
            for called in part.called:
                if not isinstance(called, Part):
                    library.add_linking_library(called)
                elif called not in parts:
                    parts.append(called)
                    whole.link_in(called.module, preserve=True)
        library.add_llvm_module(whole)

    def add_linking_library(self, library: CodeLibrary) -> None:
        """Note what is called."""
        self.called.append(library)

    def add_ir_module(self, ir_module: Any) -> None:
        """Take the code, which several kernels may have."""
        for function in ir_module.functions:
            if not function.is_declaration and not function.linkage:
                function.linkage = "linkonce_odr"
        self.module = parse_assembly(cgutils.normalize_ir_text(str(ir_module)))

    def finalize(self) -> None:
        """Do nothing: only kernels become machine code."""

    def get_function(self, name: str) -> Any:
        """Return a function in the code."""
        return self.module.get_function(name)

    def get_llvm_str(self) -> str:
        """Return the code."""
        return str(self.module)

    def get_asm_str(self) -> str:
        """Return no machine code."""
        return ""


class _Listener(event.Listener):
    def __init__(self, told: Callable[[], None]) -> None:
        self.told = told

    def on_start(self, event: Any) -> None:
        del event
        self.told()

    def on_end(self, event: Any) -> None:
        pass


def listening(told: Callable[[], None]) -> AbstractContextManager[Any]:
    """Call a function inside whenever a kernel is about to be compiled."""
    listener: AbstractContextManager[Any] = event.install_listener(_COMPILES, _Listener(told))
    return listener


def calling(signature: Any) -> Any:
    """Return a function ``call(address, *args)`` for C functions of a signature.

    A pointer is the address of an array in C order. numba has a type for C functions, but no way
    from a whole number to one.
    """

    @intrinsic
    def call(typing: Any, address: Any, *args: Any) -> Any:
        del typing
        for kind, expected in zip(args, signature.args, strict=True):
            if isinstance(expected, types.CPointer) and not (
                isinstance(kind, types.Array)
                and kind.dtype == expected.dtype
                and kind.layout == "C"
            ):
                raise errors.TypingError(
                    f"an array of {expected.dtype} in C order is needed, not {kind}"
                )

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            given = []
            for place, (kind, expected) in enumerate(zip(args, signature.args, strict=True)):
                value = builder.extract_value(values[1], place)
                if isinstance(expected, types.CPointer):
                    given.append(context.make_array(kind)(context, builder, value).data)
                else:
                    given.append(context.cast(builder, value, kind, expected))
            returned = context.get_value_type(signature.return_type)
            function = ir.FunctionType(returned, [value.type for value in given])
            at = context.cast(builder, values[0], sig.args[0], types.int64)
            return builder.call(builder.inttoptr(at, function.as_pointer()), given)

        return signature.return_type(address, types.StarArgTuple(args)), generate

    return call


@intrinsic
def rarely(typing: Any) -> Any:
    """Mark a branch that is seldom taken, and dear.

    Without it the compiler may compute both branches for several arms at once and throw one away,
    and whether it does depends on what else was compiled before. An empty instruction that it must
    not move keeps the branch a branch.
    """
    del typing

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        del sig, args
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def seldom(typing: Any, flag: Any) -> Any:
    """Return the flag, and let the compiler lay out code for where it is false."""
    del typing, flag

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        del context, sig
        bit = ir.IntType(1)
        function = ir.FunctionType(bit, [bit, bit])
        expect = builder.module.declare_intrinsic("llvm.expect", [bit], function)
        return builder.call(expect, [args[0], bit(0)])

    return types.boolean(types.boolean), generate


# Remove cached kernels whose sources have changed.
#
# numba's cache looks only at the file of the kernel, not at those of the functions it calls, so
# after an edit of such a function it would silently go on running the old code.


STAMP = "kernel-sources.sha256"


def remove_stale_kernels(cache: Path) -> None:
    """Remove the kernels in a cache folder unless they were compiled from the present sources."""
    stamp, present = cache / STAMP, source_digest()
    with contextlib.suppress(OSError):  # a folder that is not writable holds no kernels of ours
        if stamp.exists() and stamp.read_text() == present:
            return
        for kernel in cache.glob("*.nbi"):
            kernel.unlink(missing_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
        stamp.write_text(present)


def source_digest() -> str:
    """Return a digest of all sources that kernels are compiled from."""
    files = [Path(str(module.__file__)) for module in (rewards, tables, schedule)]
    for folder in (Path(str(core.__file__)).parent, Path(__file__).parents[1]):
        files += sorted(folder.rglob("*.py"))
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()
