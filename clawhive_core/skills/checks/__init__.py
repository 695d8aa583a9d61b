"""Checks of the whole set, and of one skill beyond its contract."""
