"""Broken engines of Modes I and II: what is broken, the clause that it breaks, the mode, and the case that must fail.

Each fault breaks one rule of the requester, the responder, the reassembly, the buffers or the timers of the reference
engine and leaves the rest of it sound, so that the named case fails by what it sees on the wire and not by a crash.
"""

from __future__ import annotations

from testbed.rc_mutants import messages, order, recovery, slots, timers
from testbed.rc_mutants.table import MUTANTS, Patch

__all__ = ["MUTANTS", "Patch", "messages", "order", "recovery", "slots", "timers"]
