"""Planners, and how their plans are run."""
