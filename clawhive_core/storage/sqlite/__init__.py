"""The adapters that keep things in SQLite files."""
