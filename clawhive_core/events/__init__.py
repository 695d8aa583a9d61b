"""The event log: append, chain, redaction, blobs, and the projections of other rooms."""
