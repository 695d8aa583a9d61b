"""The embedded adapter of the storage port: one SQLite file with the log and its projections."""
