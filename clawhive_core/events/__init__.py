"""The event log: append, chain, redaction, blobs, and the projections of other rooms.

May import `storage` and what lies below it. Other rooms bring their tables and projections along;
this one knows none of them.
"""
