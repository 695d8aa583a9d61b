"""What a run leaves behind: its rows, who owns it, and how it is read and shown."""
