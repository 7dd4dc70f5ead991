"""`epic bench COLLECTIVE`: how fast collectives are, measured side by side with other libraries in one run.

Every *contender*, EPIC itself and each peer, has one process a rank, started once. They take turns, size by size and
round by round, and wait without using the processor when it is another's turn.

    cases.py       sizes, options, what is measured
    contenders.py  what a contender is; EPIC
    gloo.py, mpi.py, ring.py   the peers
    worker.py      one rank of one contender
    supervisor.py  who may run now; rows as they are complete
    rows.py        figures and JSON of a size
    cli.py, display.py
"""
