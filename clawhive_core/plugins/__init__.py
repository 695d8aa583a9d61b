"""Plugins: found, read from their manifests, imported when needed, and kept apart.

May import `config`, `events` and what lies below them. Listing imports no plugin; a plugin that
fails takes nothing else down.
"""
