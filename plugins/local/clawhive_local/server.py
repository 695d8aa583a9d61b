"""llama.cpp's server within the process."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Protocol

from clawhive_core import model_failure
from clawhive_local.settings import Settings

_ERRORS_ONLY = 0


class Server(Protocol):
    """The methods of `xllamacpp.Server` that the adapter uses."""

    def handle_chat_completions(
        self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool], /
    ) -> Any:
        """Answer in the calling thread, each piece by `take`; it stops where that returns True."""
        ...


Load = Callable[[str, Settings], Server]
"""Loads a GGUF file; blocks meanwhile."""


def load(path: str, settings: Settings) -> Server:
    """Load a GGUF file.

    Raises:
        ModelError: `missing_package`, or `model_not_found`: llama.cpp cannot read it.
    """
    try:
        import xllamacpp  # pyright: ignore[reportMissingImports] - who only checks types needs no llama.cpp
    except ImportError as error:
        raise model_failure(
            "missing_package",
            f"llama.cpp cannot be imported: {error}",
            fix="run: pip install xllamacpp",
        ) from error
    library: Any = xllamacpp
    try:
        return library.Server(_parameters(library, path, settings))
    except RuntimeError as error:
        raise model_failure(
            "model_not_found",
            f"llama.cpp cannot load `{path}`: {error}",
            fix="check the file, and that its context fits the memory (`plugins.local.context`)",
        ) from error


def _parameters(library: Any, path: str, settings: Settings) -> Any:
    params = library.CommonParams()
    params.model.path = path
    params.n_ctx = settings.context
    params.n_gpu_layers = settings.gpu_layers
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.warmup = params.fit_params = False
    params.offline = True
    params.verbosity = _ERRORS_ONLY
    # It listens on a port of the loopback interface too, where no other program has business.
    params.api_keys = [secrets.token_hex(32)]
    params.ui = params.endpoint_slots = params.endpoint_props = False
    return params
