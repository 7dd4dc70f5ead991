"""P4Runtime: a server in front of a `P4Switch`, and a driver that installs groups on any P4Runtime switch.

`server.py` is the only module that opens a socket to serve, `client.py` the only one that opens one to drive.
"""
