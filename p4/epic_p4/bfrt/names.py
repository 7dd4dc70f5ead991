"""Names of BFRuntime: how it calls a program's tables, and the fixed tables of the device."""

from __future__ import annotations

PIPE = "pipe"

REGISTER_INDEX = "$REGISTER_INDEX"
COUNTER_INDEX = "$COUNTER_INDEX"
COUNTER_PACKETS = "$COUNTER_SPEC_PKTS"
COUNTER_BYTES = "$COUNTER_SPEC_BYTES"

MULTICAST_GROUPS = "$pre.mgid"
MULTICAST_NODES = "$pre.node"
GROUP_ID = "$MGID"
NODE_ID = "$MULTICAST_NODE_ID"
NODE_XID_VALID = "$MULTICAST_NODE_L1_XID_VALID"
NODE_XID = "$MULTICAST_NODE_L1_XID"
NODE_RID = "$MULTICAST_RID"
NODE_LAGS = "$MULTICAST_LAG_ID"
NODE_PORTS = "$DEV_PORT"

PORTS = "$PORT"
PORT_ID = "$DEV_PORT"
PORT_SPEED = "$SPEED"
PORT_FEC = "$FEC"
PORT_AUTO_NEGOTIATION = "$AUTO_NEGOTIATION"
PORT_ENABLE = "$PORT_ENABLE"
PORT_UP = "$PORT_UP"
PORT_RX_MTU = "$RX_MTU"
PORT_TX_MTU = "$TX_MTU"


def table(name: str) -> str:
    """A table, register or counter of the program."""
    return f"{PIPE}.{name}"


def register_field(register: str, member: str = "") -> str:
    """The data field of a register: BFRuntime calls a plain value f1, and leaves "pipe." out here."""
    return f"{register}.{member or 'f1'}"
