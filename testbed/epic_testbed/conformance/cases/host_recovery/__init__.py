"""Case group: hosts: recovery."""
