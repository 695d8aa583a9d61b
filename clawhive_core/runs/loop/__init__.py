"""The tool-use loop, and what keeps it within bounds."""
