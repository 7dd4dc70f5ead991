"""EPIC's P4-16 front end and executor.

`frontend.compile_file` turns a source file into a checked `ast.Program`; the other packages build on that.
`subset.md` says which part of the language is covered.
"""
