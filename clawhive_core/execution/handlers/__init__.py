"""The handlers of skills, each in the smallest box that can run it."""
