"""Case group: hosts: primitives."""
