"""The executor: the only way to run a tool, one small function a stage.

May import `policy`, `audit`, `catalog` and what lies below them.
"""
