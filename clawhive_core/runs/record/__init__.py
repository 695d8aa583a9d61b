"""The record of a run: its rows, its owner, and the ways to read and show it."""
