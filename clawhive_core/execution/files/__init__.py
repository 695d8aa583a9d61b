"""The project's files as a call may touch them."""
