"""`KEY=VALUE` on the command line: text, a file, or JSON where the schema asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from clawhive_core.errors import InvalidInput

MAX_FILE_BYTES = 32 * 1024 * 1024


def read_inputs(words: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input that `--input` words spell.

    `KEY=VALUE` is text unless the schema says otherwise, then JSON; `KEY=@FILE` is the file's
    text; `@FILE` alone a JSON object; `@@` at the start of a value stands for `@`.

    Raises:
        InvalidInput: `place` is the word.
    """
    found: dict[str, Any] = {}
    for word in words:
        if word.startswith("@"):
            found.update(_object(word))
            continue
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidInput(
                f"`{word}` is no KEY=VALUE", place=f"--input {word}", fix="--input KEY=VALUE"
            )
        found[key] = _value(key, value, schema)
    return found


def spelled(input: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str] | None:
    """Return the words that `read_inputs` reads as this input, None where none are."""
    properties = cast("Mapping[str, Any]", schema.get("properties", {}))
    words: list[str] = []
    for key, value in input.items():
        as_text = _takes_text(properties.get(key, {}))
        if not key or key.startswith("@") or "=" in key or (as_text and not isinstance(value, str)):
            return None
        text = value if as_text else json.dumps(value, ensure_ascii=False)
        words.append(f"{key}=@{text}" if text.startswith("@") else f"{key}={text}")
    return words


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that `--args` holds.

    Raises:
        InvalidInput: It is none.
    """
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"--args is no JSON: {error}", place="--args", fix='--args \'{"name": "value"}\''
        ) from None
    if not isinstance(value, dict):
        raise InvalidInput("--args is no JSON object", place="--args", fix="--args '{}'")
    return cast("dict[str, Any]", value)


def _value(key: str, text: str, schema: Mapping[str, Any]) -> Any:
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text = _file(text[1:], key)
    properties = cast("Mapping[str, Any]", schema.get("properties", {}))
    if _takes_text(properties.get(key, {})):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"`{key}` takes JSON, and this is none: {error}",
            place=f"--input {key}",
            fix=f"quote it for the shell, such as --input '{key}={_example(properties[key])}'",
        ) from None


def _takes_text(schema: Any) -> bool:
    """Whether a schema admits any text, so that a value need not be quoted."""
    if not isinstance(schema, Mapping):
        return True
    types = cast("Mapping[str, Any]", schema).get("type")
    return types is None or types == "string" or (isinstance(types, list) and "string" in types)


def _example(schema: Mapping[str, Any]) -> str:
    examples = {"object": '{"name": "text"}', "array": '["text"]', "boolean": "true"}
    return examples.get(str(schema.get("type")), "1")


def _object(word: str) -> Mapping[str, Any]:
    text = _file(word[1:], word)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{word[1:]} holds no JSON: {error}", place=f"--input {word}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{word[1:]} holds no JSON object", place=f"--input {word}")
    return cast("dict[str, Any]", value)


def _file(name: str, key: str) -> str:
    path = Path(name)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidInput(
                f"{name} is larger than {MAX_FILE_BYTES} bytes", place=f"--input {key}"
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{name} cannot be read: {error.strerror}",
            place=f"--input {key}",
            fix="write the path of a file after @, or @@ for a text that starts with @",
        ) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} is no UTF-8 text", place=f"--input {key}") from None
