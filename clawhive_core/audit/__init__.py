"""Looking at the log from outside: verify, checkpoints, display."""
