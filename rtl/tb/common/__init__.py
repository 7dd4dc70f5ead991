"""What the benches share: how they are built and run, streams, frames."""
