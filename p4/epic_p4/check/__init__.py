"""The checker: names, types, constants, instances."""

from epic_p4.ast import Program
from epic_p4.check.fold import evaluate
from epic_p4.check.program import check

__all__ = ["Program", "check", "evaluate"]
