"""The one table of all tools: names, assembly in preferred order, revisions.

May import `plugins`, `skills` and what lies below them; knows nothing of policy or execution.
"""
