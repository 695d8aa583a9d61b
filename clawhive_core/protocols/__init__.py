"""Every seam of ClawHive: what plugins implement and what they are given.

Imports `model` and nothing else; holds no behaviour.
"""
