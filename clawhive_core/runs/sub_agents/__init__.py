"""Agents that a run starts: as tools, by a rule, by code."""
