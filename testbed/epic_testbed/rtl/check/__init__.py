"""`epic check rtl`: lint, benches, proofs and synthesis of rtl/, each a check with a deadline and a verdict.

The kinds are modules: `lint`, `bench`, `proof`, `synth`. Each lists its checks from the sources and its manifest; a
check is a coroutine that runs tools as processes in a folder of its own and gives a verdict with figures.
"""
