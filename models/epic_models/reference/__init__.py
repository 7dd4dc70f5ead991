"""Golden agents and engines, one module a mode: pure, readable beside epic.md, no I/O."""
