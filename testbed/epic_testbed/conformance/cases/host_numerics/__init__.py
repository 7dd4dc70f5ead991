"""Case group: hosts: emulated numbers."""
