"""Compiled functions by their addresses: a loop that works for every mode calls the mode's kernels so.

numba puts all that a function calls into it and compiles it again there. Called by address, a kernel is compiled once,
and a loop need not know at its compilation whose kernels it will call.
"""

# numba's extension interface has no types.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, unused-ignore"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from epic_host.fast.compiled import intrinsic, types


class Prototype:
    """The types of a function that is called by address, with C's calling convention.

    `call(address, (argument, ...))` is for compiled code.
    """

    def __init__(self, result: Any, *arguments: Any) -> None:
        self.arguments = arguments
        self.call = _caller(result, arguments)

    def address(self, kernel: Callable[..., Any]) -> int:
        """Where a compiled function is that has these types; it is compiled, or loaded, now."""
        function: Any = kernel
        function.compile(self.arguments)
        # It lives as long as the module that has it, as all kernels do.
        compiled: Any = function.overloads[self.arguments]
        address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
        return address


def _caller(result: Any, arguments: tuple[Any, ...]) -> Any:
    # C has no tuple of one.
    packed = types.Tuple(arguments)

    @intrinsic
    def call(typingctx: Any, address: Any, values: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            kinds = [context.get_value_type(kind) for kind in arguments]
            kind = ir.FunctionType(context.get_value_type(result), kinds)
            function = builder.inttoptr(given[0], kind.as_pointer())
            return builder.call(function, [builder.extract_value(given[1], i) for i in range(len(arguments))])

        return result(types.int64, packed), build

    return call
