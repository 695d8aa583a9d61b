"""What a skill and its contract say: read field by field, each mistake with its place."""
