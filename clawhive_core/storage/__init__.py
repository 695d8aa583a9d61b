"""Storage: the SQLite ledger, and folders made from a template.

May import `events` and what lies below it. Rooms above know the ledger by
`clawhive_core.protocols.ledger` only.
"""
