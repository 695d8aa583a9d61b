"""Grants and decisions: what a call needs, what its task was given, what a person must answer.

May import `catalog` and what lies below it. A decision is a function of values: no clock, no I/O.
"""
