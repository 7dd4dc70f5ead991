"""The conformance suite: one set of clauses, every realization a device under test."""
