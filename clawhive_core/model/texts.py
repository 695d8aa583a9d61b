"""Texts, made fit for an encoding, a line or a sentence."""

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


def printable(text: str) -> str:
    """Return text for one line of a terminal: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def counted(number: int, word: str) -> str:
    """Return a number with its noun: `1 skill`, `2 skills`, `0 fixes`."""
    if number != 1 and word.endswith("x"):
        return f"{number} {word}es"
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
