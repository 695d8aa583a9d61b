"""The offer to an agent: its tools, its skills, and the tools that these bring."""
