"""From the files of skills to values, each with its place."""
