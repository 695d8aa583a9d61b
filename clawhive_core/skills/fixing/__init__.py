"""Edits that mend what a check found."""
