"""The flow-level simulator: collectives as flows with max-min fair rates, for datacenters and many jobs."""
