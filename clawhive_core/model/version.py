"""The version of this code."""

from __future__ import annotations

VERSION = "0.1.0"
