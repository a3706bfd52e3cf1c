"""Tasks of a kernel, played by all threads.

numba compiles the body of every parallel loop twice, with much around it. Here one small loop is
compiled for all kernels; what it calls for each task is handed to it by address.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.leaves import kernel

_ADDRESS, _WHOLE = ir.IntType(8).as_pointer(), ir.IntType(64)
_TASK = ir.FunctionType(ir.VoidType(), [_ADDRESS, _WHOLE])


@inner
def num_tasks(world: Any) -> int:
    """Return the number of blocks of agents in all runs."""
    tasks: int = world.reward_keys.shape[0] * world.num_blocks
    return tasks


@inner
def share_of(task: int, parts: int, world: Any) -> tuple[int, int, int]:
    """Return the run of a task, its first agent and the end, where runs have `parts` tasks each.

    A part is one block of agents, or all of them.
    """
    width = world.block * (world.num_blocks // parts)
    start = task % parts * width
    return task // parts, start, min(start + width, world.places.size)


@intrinsic
def in_threads(typing: Any, body: Any, tasks: Any, given: Any) -> Any:  # noqa: ARG001  by name
    """Call ``body(task, *given)`` for task = 0 … tasks − 1, each in some thread.

    The body sees arrays that it does not own, and so never counts references to them.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        del sig
        kept = cgutils.alloca_once(builder, context.get_value_type(given))  # also in a loop
        builder.store(_disowned(context, builder, given, args[2]), kept)
        task = _task_of(context, builder, body, given)
        whole = types.int64
        _launch(
            context, builder, types.void(whole, whole, whole),
            [builder.ptrtoint(task, _WHOLE), builder.ptrtoint(kept, _WHOLE), args[1]],
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(body, types.int64, given), generate


def _launch(context: Any, builder: Any, signature: Any, args: Any) -> None:
    def launch(task: Any, given: Any, tasks: Any) -> None:
        each(task, given, tasks)

    context.compile_internal(builder, launch, signature, args)


@kernel(parallel=True)
def each(task: int, given: int, tasks: int) -> None:
    """Call a C function at an address with another address, for every task."""
    if tasks == 1:  # waking threads takes milliseconds where others use the cores
        _call(task, given, 0)
        return
    for number in prange(tasks):
        _call(task, given, number)


@intrinsic
def _call(typing: Any, task: Any, given: Any, number: Any) -> Any:
    del typing, task, given

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function = builder.inttoptr(args[0], _TASK.as_pointer())
        number = context.cast(builder, args[2], sig.args[2], types.int64)
        builder.call(function, [builder.inttoptr(args[1], _ADDRESS), number])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, number), generate


def _task_of(context: Any, builder: Any, body: Any, given: Any) -> Any:
    """Return a C function that takes what is given apart and calls the body."""
    part = body.typing_key.part((types.int64, *given.types))
    name = f"{builder.function.name}.{part.described.unique_name}"
    function = ir.Function(builder.module, _TASK, builder.module.get_unique_name(name))
    function.linkage = "internal"
    inner = ir.IRBuilder(function.append_basic_block())
    kept = inner.bitcast(function.args[0], context.get_value_type(given).as_pointer())
    values = inner.load(kept)
    parts = [inner.extract_value(values, place) for place in range(len(given.types))]
    context.call_internal_no_propagate(
        inner, part.add(context), part.signature, [function.args[1], *parts]
    )
    inner.ret_void()
    return function


def _disowned(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value whose arrays have no owner."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for place, part in enumerate(kind.types):
            inner = _disowned(context, builder, part, builder.extract_value(value, place))
            value = builder.insert_value(value, inner, place)
    return value
