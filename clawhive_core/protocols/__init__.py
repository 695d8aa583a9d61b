"""Every seam of ClawHive: what plugins implement and what they are given."""
