"""What a Tofino asks of a program: rules with source positions, and an estimate of stages and memory.

How it goes: `pipeline` finds the controls of a TNA program, `flow` flattens each into units (tables, conditions,
statements) with the paths between them, `checks` holds the rules, `dependency` and `demand` make the items that
`schedule` places in stages, `phv` counts containers. `target` holds every limit and where it was read.

An estimate is not a compiler: it knows no container allocation, no crossbar groups, no action data bus and no
instruction memory. It errs to the hopeful side in those, and says so in its report.
"""
