"""Types of Python for what skills export and import: `clawhive skills types`."""

from __future__ import annotations
