"""Checked P4 in, Python source out.

Each parser and control instance becomes one Python function; actions, functions and abstract methods are written out
where they are called, so that the variables of a control are plain Python variables. Numbers are Python ints, kept in
the range of their P4 type: an expression is masked where a value that is out of range could be seen.
"""
