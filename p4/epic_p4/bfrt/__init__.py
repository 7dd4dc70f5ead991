"""BFRuntime: groups on a Tofino, through the SDE's own gRPC client.

The client is not on any package index, so everything here is written against the narrow interface of `client.py`;
`sde.py` is the only module that knows the SDE's.
"""
