"""The web: guarded fetching of pages."""

from __future__ import annotations

from clawhive_web.fetch import fetch

__all__ = ["fetch"]
