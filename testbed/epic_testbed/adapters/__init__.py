"""Adapters: each makes one realization a device under test. Registered in the entry point group `epic.duts`."""
