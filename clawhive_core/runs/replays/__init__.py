"""Repeating a recorded run: exactly, with one side live, or under other rules."""
