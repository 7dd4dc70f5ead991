"""The packet-level simulator: hosts, links, switches and protocols as compiled state machines in virtual time."""
