"""What a running P4 program is made of: packets, tables, registers, counters, hashes, multicast groups."""
