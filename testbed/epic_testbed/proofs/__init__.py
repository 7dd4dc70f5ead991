"""Proofs: runs of TLC over tla/, held against tla/manifest.toml, and recordings of runs held against the specs."""
