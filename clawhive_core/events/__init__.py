"""Says what an event is, without I/O: kinds, redaction, canonical bytes, the hash chain."""
