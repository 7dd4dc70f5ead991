"""Built-in topologies, as TOML files."""
