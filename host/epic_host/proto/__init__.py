"""The control plane as data: `epic/v1/engine.proto` and the Python code that `build.py` makes from it."""
