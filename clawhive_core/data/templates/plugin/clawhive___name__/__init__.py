"""The plugin {{id}} for ClawHive."""

from clawhive_core import tool

__all__ = ["greet"]


@tool
def greet(name: str) -> str:
    """Greet someone by name.

    Args:
        name: Whom to greet.
    """
    return f"Hello, {name}!"
