"""Lines in a handler's pipe that its process's own program never sends."""

import pytest

from clawhive_core.execution.handlers.child import _message


@pytest.mark.parametrize(
    "line",
    [
        b"1.5",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"1" * 5_000,
        b"\xff",
        b'{"ask": 1}',
        b'{"ask": {}, "method": "call", "arguments": {}}',
        b'{"ask": 1, "method": 2, "arguments": {}}',
        b'{"ask": 1, "method": "call", "arguments": []}',
        b'{"limit": "everything"}',
        b'{"error": {}}',
        b'{"error": "x", "line": "3"}',
        b'{"not_json": null}',
        b'{"missing": 3}',
    ],
)
def test_what_is_no_message_is_refused(line):
    with pytest.raises(ValueError):  # noqa: PT011 - the reader of lines tells all alike
        _message(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"value": null}',
        b'{"error": "x", "line": null}',
        b'{"limit": "memory"}',
        b'{"ask": 1, "method": "call", "arguments": {"name": "a.b"}}',
    ],
)
def test_what_the_program_sends_is_a_message(line):
    assert _message(line)
