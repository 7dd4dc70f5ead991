"""Package epic.v1 of the control plane."""
