"""Strings that are, and are not, of a format."""

from __future__ import annotations

SAMPLES = {
    "date-time": ("2024-01-31T12:00:00Z",),
    "date": ("2024-01-31",),
    "time": ("12:00:00Z",),
    "duration": ("P1D",),
    "email": ("a@example.com",),
    "idn-email": ("a@example.com",),
    "hostname": ("example.com", "a"),
    "idn-hostname": ("example.com", "a"),
    "ipv4": ("127.0.0.1",),
    "ipv6": ("::1", "2001:db8::1"),
    "uri": ("https://example.com/a", "urn:a"),
    "iri": ("https://example.com/a", "urn:a"),
    "uri-reference": ("/a", "https://example.com/a"),
    "iri-reference": ("/a", "https://example.com/a"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    "uri-template": ("/{a}", "a"),
    "json-pointer": ("/a", ""),
    "relative-json-pointer": ("1/a", "0"),
    "regex": ("^a$", "a"),
}
"""Strings of the formats that JSON Schema names; others (`int64`) refuse no value."""
OF_NO_FORMAT = ("not one", "{", "[", "a~2", "%", "::", "<", "-", "")
"""Strings of which one or another is of no such format."""
