"""Case group: hosts: results."""
