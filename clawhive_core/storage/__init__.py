"""SQLite files: opening, pragmas, per-room migrations; folders made from a template.

May import `diagnostics` and what lies below it; knows no table but its own two.
"""
