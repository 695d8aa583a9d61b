"""Looking at the log from outside: verify, checkpoints, display, sinks.

May import `events` and what lies below it; writes nothing into the log.
"""
