"""Package epic of the control plane."""
