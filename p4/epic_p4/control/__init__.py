"""Groups on a switch that runs the P4 program: what to write for them, and what to read back.

`GroupController` installs and removes groups through a `Backend`; everything else here is pure.
"""

from epic_p4.control.backend import Backend, BackendError, DirectBackend
from epic_p4.control.capabilities import ProgramCapabilities
from epic_p4.control.controller import GroupController, Reading
from epic_p4.control.entries import Installation, MulticastGroup, RegisterFill
from epic_p4.control.program import ProgramModel
from epic_p4.control.readback import SlotReading
from epic_p4.control.schema import Schema, schema_of

__all__ = [
    "Backend",
    "BackendError",
    "DirectBackend",
    "GroupController",
    "Installation",
    "MulticastGroup",
    "ProgramCapabilities",
    "ProgramModel",
    "Reading",
    "RegisterFill",
    "Schema",
    "SlotReading",
    "schema_of",
]
