"""SQLite files: opening, pragmas, per-room migrations, and what their failures mean.

May import `diagnostics` and what lies below it; knows no table but its own two.
"""
