"""Asks the processor for records before a kernel needs them.

The groups of a stream with many keys do not fit into the processor's caches, and come in any order: to wait for the
record of each event's group takes several times as long as to match the event. A kernel knows which events come next,
so it says so, and goes on meanwhile.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

#: So many steps before it reads a record, a kernel asks for it; where the record names another one, for that one so
#: many steps before.
AHEAD, NEXT_AHEAD = 16, 8

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def prefetch(records: np.ndarray, number: int | np.int64) -> None:
        """Without a compiler there is nothing to ask."""

else:

    @intrinsic
    def prefetch(typing: Any, records: Any, number: Any) -> Any:
        """Ask for a record of an array, or a row, that will be read and written soon."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            of_array = signature.args[0]
            array = context.make_array(of_array)(context, builder, arguments[0])
            zero = context.get_constant(types.intp, 0)
            place = [arguments[1], *[zero] * (of_array.ndim - 1)]
            item = cgutils.get_item_pointer(context, builder, of_array, array, place)
            pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            function = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            ask = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")
            writes, keeps, is_data = number(1), number(3), number(1)
            builder.call(ask, [builder.bitcast(item, pointer), writes, keeps, is_data])
            return context.get_dummy_value()

        return types.void(records, types.intp), generate
