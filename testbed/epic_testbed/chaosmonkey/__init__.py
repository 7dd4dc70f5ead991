"""The chaos test: many jobs on one fabric while a seeded monkey kills ranks, switches and the manager and cuts links.

schedule    what the monkey does and which jobs there are: a pure function of the seed
layout      the fabric of three levels, and the addresses of everything on it
cluster     manager and switches as processes: started, killed, restarted; links cut and joined
programme   what a rank computes, step by step, and whether it is right
worker      a process that hosts ranks as threads
job         one job as the supervisor sees it: its lives, what was lost, when it last moved
supervisor  everything together, with a bound on every wait
leaks       what is left at the end: asked of the manager, the engines and /proc
report      what was survived, as JSON and as a table
"""
