"""Runs the code of conditions that join several events (conditions.py) on the terms of one path."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from situ.kernel.arrays import Code, Events, Machine, Nodes
from situ.kernel.program.conditions import Comparison, Fold, Op

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Kernels work in place on arrays that they are given. `_nrt=False` leaves out the counting of references to them, and
# inlining leaves out handing over dozens of arrays for every event: together a factor of seventy on short patterns.
_OPTIONS: Any = {"cache": True, "nogil": True, "_nrt": False}


def jit(kernel: Kernel) -> Kernel:
    """Compiled, unless NUMBA_DISABLE_JIT is set."""
    return cast(Kernel, numba.njit(kernel, **_OPTIONS))


def jit_with_memory(kernel: Kernel) -> Kernel:
    """Compiled, for kernels that make arrays of their own."""
    return cast(Kernel, numba.njit(kernel, cache=True))


def inlined(kernel: Kernel) -> Kernel:
    """A part of a kernel, compiled into those that call it."""
    return cast(Kernel, numba.njit(kernel, inline="always", **_OPTIONS))


HOST_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def call_host(address: int, condition: int, event: int, node: int) -> int:
        return int(HOST_FUNCTION(int(address))(int(condition), int(event), int(node)))

else:

    @intrinsic
    def call_host(typing: Any, address: Any, condition: Any, event: Any, node: Any) -> Any:
        """Call the function at `address`. A bare address keeps compiled kernels cacheable: it is a number to them."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            function = ir.FunctionType(word, [word, word, word])
            return builder.call(builder.inttoptr(arguments[0], function.as_pointer()), arguments[1:])

        return types.int64(types.int64, types.int64, types.int64, types.int64), generate


def host_address(function: Callable[[int, int, int], int]) -> tuple[Any, int]:
    """A C entry into a Python function, to be kept alive, and its address."""
    entry = HOST_FUNCTION(function)
    return entry, ctypes.cast(entry, ctypes.c_void_p).value or 0


# Enum members are plain numbers for Numba.
(CHECK, HOST, SELF_I, SELF_F, TERM_I, TERM_F, CONST_I, CONST_F, NULL_I, NULL_F, TO_F,
 ADD_I, SUB_I, MUL_I, MOD_I, NEG_I, ADD_F, SUB_F, MUL_F, DIV_F, MOD_F, NEG_F, COMPARE_I, COMPARE_F,
 AND, OR, NOT, IS_NULL_I, IS_NULL_F, COALESCE_I, COALESCE_F, ABS_I, ABS_F, DISTANCE, COUNT,
 AGGREGATE_I, AGGREGATE_F, MEAN_I, MEAN_F, DEVIATION_I, DEVIATION_F,
 ELEMENT_I, ELEMENT_F) = (int(op) for op in Op)  # fmt: skip
EQ, NE, LT, LE, GT, GE = (int(c) for c in Comparison)
SUM, MIN, MAX, FIRST, LAST = (int(f) for f in Fold)
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@jit
def event_of(variable: int, node: int, nodes: Nodes, code: Code) -> int:
    """The event of a variable on the path that ends in `node`; -1 if it has none."""
    while node >= 0:
        if code.state_variable[nodes[node].state] == variable:
            return nodes[node].event
        node = nodes[node].parent
    return -1


@jit
def decide(comparison: int, sign: int) -> bool:
    """Whether a comparison is true of a left value that is smaller than the right one (-1), equal (0) or larger (1)."""
    if comparison == EQ:
        return sign == 0
    if comparison == NE:
        return sign != 0
    if comparison == LT:
        return sign < 0
    if comparison == LE:
        return sign <= 0
    if comparison == GT:
        return sign > 0
    return sign >= 0


@jit
def compare_whole(comparison: int, a: int, b: int) -> bool:
    """Whether a comparison of whole numbers is true."""
    return decide(comparison, int(a > b) - int(a < b))


@jit
def compare_real(comparison: int, a: float, b: float) -> bool:
    """Whether a comparison of real numbers is true. As in Spark, NaN equals NaN and is greater than all others."""
    if math.isnan(a) or math.isnan(b):
        return decide(comparison, int(math.isnan(a)) - int(math.isnan(b)))
    return decide(comparison, int(a > b) - int(a < b))


@jit
def add_whole(a: int, b: int) -> tuple[int, bool]:
    """The sum, and whether it overflowed."""
    if (b > 0 and a > MOST - b) or (b < 0 and a < LEAST - b):
        return 0, True
    return a + b, False


@jit
def subtract_whole(a: int, b: int) -> tuple[int, bool]:
    """The difference, and whether it overflowed."""
    if (b < 0 and a > MOST + b) or (b > 0 and a < LEAST + b):
        return 0, True
    return a - b, False


@jit
def multiply_whole(a: int, b: int) -> tuple[int, bool]:
    """The product, and whether it overflowed."""
    if a == 0:
        return 0, False
    if a == -1:
        return (0, True) if b == LEAST else (-b, False)
    product = a * b  # wraps; a wrapped product never divides back to b
    return product, product // a != b


@jit
def remainder_whole(a: int, b: int) -> int:
    """What is left of a divided by b, with the sign of a. b is neither 0 nor -1."""
    r = a % b
    if r != 0 and (r < 0) != (a < 0):
        r -= b
    return r


@jit
def fold_whole(
    term: int, fold: int, variable: int, node: int, nodes: Nodes, code: Code, events: Events
) -> tuple[int, bool]:
    """An aggregate over the events of a variable on a path (walked from its end): value, and whether it is null."""
    result, null, overflow = 0, True, False
    while node >= 0:
        if code.state_variable[nodes[node].state] == variable:
            event = nodes[node].event
            missing = events.whole_null[event, term] != 0
            value = events.whole[event, term]
            if fold == LAST:
                return value, missing
            if fold == FIRST:
                result, null = value, missing
            elif not missing:
                if null:
                    result, null = value, False
                elif fold == SUM:
                    result, over = add_whole(result, value)
                    overflow = overflow or over
                elif fold == MIN:
                    result = min(result, value)
                else:
                    result = max(result, value)
        node = nodes[node].parent
    return result, null or overflow


@jit
def fold_real(
    term: int, fold: int, variable: int, node: int, nodes: Nodes, code: Code, events: Events
) -> tuple[float, bool]:
    """The same as `fold_whole` for real numbers, which do not overflow."""
    result, null = 0.0, True
    while node >= 0:
        if code.state_variable[nodes[node].state] == variable:
            event = nodes[node].event
            missing = events.real_null[event, term] != 0
            value = events.real[event, term]
            if fold == LAST:
                return value, missing
            if fold == FIRST:
                result, null = value, missing
            elif not missing:
                if null:
                    result, null = value, False
                elif fold == SUM:
                    result += value
                elif fold == MIN:
                    result = value if compare_real(LT, value, result) else result
                else:
                    result = value if compare_real(GT, value, result) else result
        node = nodes[node].parent
    return result, null


@jit
def moments(
    term: int, whole: bool, variable: int, node: int, nodes: Nodes, code: Code, events: Events
) -> tuple[int, float, float]:
    """Count, mean and sum of squared deviations (Welford) of a variable's values on a path."""
    count, mean, squares = 0, 0.0, 0.0
    while node >= 0:
        if code.state_variable[nodes[node].state] == variable:
            event = nodes[node].event
            if whole:
                missing, value = events.whole_null[event, term] != 0, float(events.whole[event, term])
            else:
                missing, value = events.real_null[event, term] != 0, events.real[event, term]
            if not missing:
                count += 1
                delta = value - mean
                mean += delta / count
                squares += delta * (value - mean)
        node = nodes[node].parent
    return count, mean, squares


@jit
def count_events(variable: int, node: int, nodes: Nodes, code: Code) -> int:
    """How many events a variable has on the path that ends in `node`."""
    count = 0
    while node >= 0:
        if code.state_variable[nodes[node].state] == variable:
            count += 1
        node = nodes[node].parent
    return count


@jit
def element_of(fold: int, passed: int, variable: int, node: int, nodes: Nodes, code: Code) -> int:
    """The event of a variable that comes `passed` events after its first or before its last one on the path that ends
    in `node`; -1 if there is none."""
    if fold == FIRST:
        passed = count_events(variable, node, nodes, code) - 1 - passed  # paths are walked from their ends
        if passed < 0:
            return -1
    while node >= 0:
        if code.state_variable[nodes[node].state] == variable:
            if passed == 0:
                return nodes[node].event
            passed -= 1
        node = nodes[node].parent
    return -1


@jit
def holds(
    begin: int, end: int, event: int, node: int, code: Code, events: Events, nodes: Nodes, machine: Machine
) -> bool:
    """Whether all conjuncts in instructions [begin, end) are true of `event`, given the path that ends in `node`."""
    whole, real, null = machine.whole, machine.real, machine.null
    top = -1
    for at in range(begin, end):
        op, a, b = code.instructions[at, 0], code.instructions[at, 1], code.instructions[at, 2]
        if op == SELF_I:
            top += 1
            whole[top], null[top] = events.whole[event, a], events.whole_null[event, a]
        elif op == SELF_F:
            top += 1
            real[top], null[top] = events.real[event, a], events.real_null[event, a]
        elif op == TERM_I or op == TERM_F:
            top += 1
            other = event_of(b, node, nodes, code)
            if other < 0:
                null[top] = 1
            elif op == TERM_I:
                whole[top], null[top] = events.whole[other, a], events.whole_null[other, a]
            else:
                real[top], null[top] = events.real[other, a], events.real_null[other, a]
        elif op == COMPARE_I:
            top -= 1
            null[top] |= null[top + 1]
            whole[top] = 1 if compare_whole(a, whole[top], whole[top + 1]) else 0
        elif op == COMPARE_F:
            top -= 1
            null[top] |= null[top + 1]
            whole[top] = 1 if compare_real(a, real[top], real[top + 1]) else 0
        elif op == CHECK:
            if null[top] != 0 or whole[top] == 0:
                return False
            top = -1
        elif op == HOST:
            if call_host(machine.host, a, event, node) != 1:
                return False
        elif op < TO_F:
            top = constant(op, a, top, code, machine)
        elif op < COMPARE_I:
            top = arithmetic(op, top, machine)
        elif op < COALESCE_I:
            top = logic(op, top, machine)
        else:
            top = function(at, top, node, code, events, nodes, machine)
    return True


# The parts of `holds` for instructions of one kind. Each returns the new top of the stack.


@jit
def constant(op: int, number: int, top: int, code: Code, machine: Machine) -> int:
    """Put a constant, or null, on the stack."""
    top += 1
    if op == CONST_I:
        machine.whole[top], machine.null[top] = code.whole_constants[number], 0
    elif op == CONST_F:
        machine.real[top], machine.null[top] = code.real_constants[number], 0
    else:
        machine.null[top] = 1
    return top


@jit
def logic(op: int, top: int, machine: Machine) -> int:
    """Logic of three values, and the question whether a value is null."""
    whole, null = machine.whole, machine.null
    if op == AND or op == OR:
        top -= 1
        decides = 0 if op == AND else 1  # the operand that decides alone, null or not on the other side
        left = null[top] == 0 and whole[top] == decides
        right = null[top + 1] == 0 and whole[top + 1] == decides
        if left or right:
            whole[top], null[top] = decides, 0
        else:
            null[top] |= null[top + 1]
            whole[top] = 1 - decides
    elif op == NOT:
        whole[top] = 1 - whole[top]
    else:
        whole[top], null[top] = null[top], 0
    return top


@jit
def arithmetic(op: int, top: int, machine: Machine) -> int:
    """Arithmetic on the stack; errors give null."""
    whole, real, null = machine.whole, machine.real, machine.null
    if op == TO_F:
        real[top] = float(whole[top])
    elif op == NEG_F:
        real[top] = -real[top]
    elif op == NEG_I:
        if whole[top] == LEAST:
            null[top] = 1
        else:
            whole[top] = -whole[top]
    else:
        top -= 1
        null[top] |= null[top + 1]
        if null[top] != 0:
            return top
        if op == ADD_I or op == SUB_I or op == MUL_I:
            a, b = whole[top], whole[top + 1]
            if op == ADD_I:
                value, overflow = add_whole(a, b)
            elif op == SUB_I:
                value, overflow = subtract_whole(a, b)
            else:
                value, overflow = multiply_whole(a, b)
            whole[top], null[top] = value, 1 if overflow else 0
        elif op == MOD_I:
            if whole[top + 1] == 0:
                null[top] = 1
            elif whole[top + 1] == -1:
                whole[top] = 0
            else:
                whole[top] = remainder_whole(whole[top], whole[top + 1])
        elif op == ADD_F:
            real[top] += real[top + 1]
        elif op == SUB_F:
            real[top] -= real[top + 1]
        elif op == MUL_F:
            real[top] *= real[top + 1]
        elif real[top + 1] == 0.0:
            null[top] = 1
        elif op == DIV_F:
            real[top] /= real[top + 1]
        else:
            real[top] = np.fmod(real[top], real[top + 1])
    return top


@jit
def function(at: int, top: int, node: int, code: Code, events: Events, nodes: Nodes, machine: Machine) -> int:
    """Built-in functions and aggregates: instruction number `at`."""
    whole, real, null = machine.whole, machine.real, machine.null
    op, a, b = code.instructions[at, 0], code.instructions[at, 1], code.instructions[at, 2]
    if op == COALESCE_I or op == COALESCE_F:
        top -= 1
        if null[top] != 0:
            whole[top], real[top], null[top] = whole[top + 1], real[top + 1], null[top + 1]
    elif op == ABS_I:
        if whole[top] == LEAST:
            null[top] = 1
        else:
            whole[top] = abs(whole[top])
    elif op == ABS_F:
        real[top] = abs(real[top])
    elif op == DISTANCE:
        top -= 3
        null[top] |= null[top + 1] | null[top + 2] | null[top + 3]
        real[top] = math.hypot(real[top] - real[top + 2], real[top + 1] - real[top + 3])
    elif op == COUNT:
        top += 1
        whole[top], null[top] = count_events(b, node, nodes, code), 0
    elif op == AGGREGATE_I:
        top += 1
        value, missing = fold_whole(a // 8, a % 8, b, node, nodes, code, events)
        whole[top], null[top] = value, 1 if missing else 0
    elif op == AGGREGATE_F:
        top += 1
        amount, missing = fold_real(a // 8, a % 8, b, node, nodes, code, events)
        real[top], null[top] = amount, 1 if missing else 0
    elif op == ELEMENT_I or op == ELEMENT_F:
        event = element_of(a % 8, whole[top], b, node, nodes, code)
        if event < 0:
            null[top] = 1
        elif op == ELEMENT_I:
            whole[top], null[top] = events.whole[event, a // 8], events.whole_null[event, a // 8]
        else:
            real[top], null[top] = events.real[event, a // 8], events.real_null[event, a // 8]
    else:
        top += 1
        count, mean, squares = moments(a, op == MEAN_I or op == DEVIATION_I, b, node, nodes, code, events)
        if op == MEAN_I or op == MEAN_F:
            real[top], null[top] = mean, 1 if count == 0 else 0
        else:
            real[top], null[top] = 0.0, 1
            if count > 1:
                real[top], null[top] = math.sqrt(squares / (count - 1)), 0
    return top
