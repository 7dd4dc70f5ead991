"""Case group: hosts: the window."""
