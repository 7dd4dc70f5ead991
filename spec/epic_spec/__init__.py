"""The EPIC protocol in Python: packets, codec, clause registry, generators."""
