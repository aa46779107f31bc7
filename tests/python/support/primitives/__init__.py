"""Tables of small JAX functions, one line each, that together use every primitive the converter names.

`cases_*.py` hold the tables, `table.py` what a line means, `../test_primitives.py` converts and compares.
"""
