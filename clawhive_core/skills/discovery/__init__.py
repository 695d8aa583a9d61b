"""Where skills are found, how they are read, which of them count and which are trusted."""
