"""`clawhive.lock`: what skills were when their user last looked, and what changed since."""

from __future__ import annotations
