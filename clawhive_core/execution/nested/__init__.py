"""The calls that a tool makes: numbered, recorded, repeated where that does no harm."""
