"""Downloads with pinned checksums."""

import gzip
import hashlib
import http.client
import os
import urllib.request
import zlib
from pathlib import Path

from zoo.errors import InputError
from zoo.whole import whole_file


def cache_directory() -> Path:
    """Where downloads are kept: ``$ATTENTION_ZOO_DATA``, else ``attention-zoo`` in the user's cache folder."""
    if "ATTENTION_ZOO_DATA" in os.environ:
        return Path(os.environ["ATTENTION_ZOO_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attention-zoo"


def fetch(url: str, sha256: str, path: Path) -> Path:
    """Downloads ``url`` to ``path`` unless it is there, whole or not at all; the checksum is compared either way.

    Args:
        url: what to download.
        sha256: of the content, decompressed if it is gzipped.
        path: where to put it.

    Raises:
        InputError: the download fails or its checksum differs; the message says where to put a copy by hand.
    """
    by_hand = f"put a copy of it at {str(path)!r}, or give a folder that has the data with --data_dir"
    there = path.is_file()
    try:
        data = path.read_bytes() if there else _download(url)
        content = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, http.client.HTTPException, EOFError, zlib.error) as error:
        raise InputError(f"{path if there else url} cannot be read ({error}); {by_hand}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path if there else url} has the checksum {found}, not {sha256}: it is not the file that was expected; "
            f"{by_hand}"
        )
    if not there:
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_name(f"{path.name}.{os.getpid()}.partial")  # two processes may fetch it at once
        with whole_file(path, own) as partial:
            partial.write_bytes(data)
    return path


def _download(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read()
