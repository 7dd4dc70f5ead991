"""The host path: collectives between ranks without engines, cell by cell, behind the interface of an agent.

`plan` says who is connected with whom, `ring` and `doubling` are the two algorithms, `agent` is what they share,
`edge` a reliable connection between two ranks, `message` what crosses it, `value` what a cell is on its way.
"""
