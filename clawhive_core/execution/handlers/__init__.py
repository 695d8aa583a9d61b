"""The handlers of skills, each run by a sandbox engine, or in a process of its own."""
