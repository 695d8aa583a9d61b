"""Asking a person about one call, and what would be asked."""
