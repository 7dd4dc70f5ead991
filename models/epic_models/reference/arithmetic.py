"""How a group computes an operator: with the engines' own arithmetic, or over INT32 where that does not serve."""

from __future__ import annotations

from typing import NamedTuple

from epic_models.reference.fixedpoint import KEYED
from epic_models.reference.group import GroupParams
from epic_models.reference.numerics import FLOATS
from epic_spec.errors import ResourceError
from epic_spec.tables import Datatype, Operator

_OPPOSITE = {Operator.MAX: Operator.MIN, Operator.MIN: Operator.MAX}


class Arithmetic(NamedTuple):
    """How an operator is computed: `kind` native, keys, limbs or fixed (coding.py), and the wire's operator.

    `complement`: values travel with all bits inverted, and `operator` is the opposite of the user's.
    """

    kind: str
    operator: Operator
    complement: bool = False

    @property
    def direct(self) -> bool:
        """Whether cells say all about the call, so that no announcement is needed."""
        return self.kind == "native" and not self.complement


def arithmetic(
    operator: Operator, datatype: Datatype, params: GroupParams, reproducible: bool = False
) -> Arithmetic:
    """How a group computes `operator` of `datatype`.

    `reproducible` asks for a result that is bitwise independent of the order of arrival: everything but a
    floating-point SUM is; that one is where the engine adds in child order (`ordered`), or as fixed point.
    Raises ResourceError when nothing that the engine offers serves.
    """
    offered = {o for o in (Operator.SUM, Operator.MAX, Operator.MIN) if o.name in params.operators}
    native = datatype.name in params.datatypes
    words = "INT32" in params.datatypes
    float_sum = operator is Operator.SUM and datatype in FLOATS
    if native and operator in offered and not (float_sum and reproducible and not params.ordered):
        return Arithmetic("native", operator)
    if operator is Operator.SUM and words and operator in offered:
        if datatype in FLOATS and Operator.MAX in offered:
            return Arithmetic("fixed", operator)
        if datatype in KEYED and datatype not in FLOATS:
            return Arithmetic("keys", operator)
        if datatype is Datatype.INT64:
            return Arithmetic("limbs", operator)
    opposite = _OPPOSITE.get(operator)
    if opposite is not None:
        if native and datatype not in FLOATS and opposite in offered:
            return Arithmetic("native", opposite, complement=True)
        if words and datatype in KEYED and operator in offered:
            return Arithmetic("keys", operator)
        if words and datatype in KEYED and opposite in offered:
            return Arithmetic("keys", opposite, complement=True)
    how = " reproducibly" if float_sum and reproducible else ""
    raise ResourceError(
        f"group {params.group}: {operator.name} of {datatype.name} cannot be computed{how}: "
        f"the engines offer {'/'.join(params.operators) or 'none'} of {'/'.join(params.datatypes) or 'none'}"
    )
