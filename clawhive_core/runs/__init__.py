"""Runs: the orchestrator, planners, the loop, models, ownership and replay.

May import `execution` and what lies below it; executes nothing but through the executor.
"""
