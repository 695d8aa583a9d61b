"""The nouns of ClawHive: frozen values without I/O (ARCHITECTURE, section 1)."""
