"""What the protocol means (`reference`) and how it performs (simulators)."""
