"""Edits that fix what a check found."""
