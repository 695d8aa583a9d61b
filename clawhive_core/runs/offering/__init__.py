"""What an agent is offered: its tools, its skills, and what these bring."""
