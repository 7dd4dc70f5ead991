"""The resource model of protocol.md, section 5: what a fabric offers, what a group demands, who gets what.

Pure values and functions: no sockets, no clocks, no randomness of their own.
"""
