"""SQLite files: opening, pragmas, per-room migrations, and what their failures mean."""
