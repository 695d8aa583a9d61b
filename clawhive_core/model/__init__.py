"""The nouns of ClawHive: frozen values without I/O, in the words of `docs/glossary.md`.

Imports nothing but `errors`.
"""
