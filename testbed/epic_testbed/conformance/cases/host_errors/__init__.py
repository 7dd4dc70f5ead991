"""Case group: hosts: errors."""
