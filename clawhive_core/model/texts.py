"""Texts that every encoding of Unicode can write."""

from __future__ import annotations


def well_formed(text: str) -> str:
    r"""Return a text with each lone surrogate as its escape, `\udc80`; any other as it is.

    Half of a surrogate pair comes from a file's name or a program's output that is no UTF-8. UTF-8
    cannot write it, so that no provider can be sent it and no terminal can show it.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
