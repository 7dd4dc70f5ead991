"""Case group: hosts as RC endpoints."""
