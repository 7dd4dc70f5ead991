"""The manager of a fabric: groups, leases, faults, and the engines' installs, kept in a store that survives it."""
