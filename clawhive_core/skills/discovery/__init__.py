"""The search path of skills, their reading, and which of them count and are trusted."""
