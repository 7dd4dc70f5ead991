"""Case group: hosts: frames."""
