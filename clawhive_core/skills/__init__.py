"""Skills: manifests and the task types they declare.

May import `events` and what lies below it; knows nothing of the catalog or of execution.
"""
