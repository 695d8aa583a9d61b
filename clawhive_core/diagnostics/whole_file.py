"""Files that are replaced whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def replace_whole(path: Path, data: bytes) -> None:
    """Put bytes in the place of a file, or make it; its rights stay, and a reader sees old or new.

    Raises:
        OSError: It cannot be written; it is as it was.
    """
    import tempfile

    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the process's own mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
