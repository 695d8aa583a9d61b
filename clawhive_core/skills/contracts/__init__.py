"""A skill and its contract: read field by field, each mistake with its place."""
