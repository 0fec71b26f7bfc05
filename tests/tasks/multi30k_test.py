"""Downloads: only what has the right checksum is kept, and what cannot be had says where to put it."""

import functools
import gzip
import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from zoo.errors import InputError
from zoo.tasks import multi30k
from zoo.tasks.download import cache_directory, fetch
from zoo.tasks.translation import Translation

SHARED = Path(__file__).resolve().parents[2].parent / "shared/data/multi30k"
LANGUAGES = ("en", "de")


@pytest.fixture
def server(tmp_path):
    """A folder, its address, and the paths that were asked for."""
    folder = tmp_path / "served"
    folder.mkdir()
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, form, *args):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ATTENTION_ZOO_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_fetch(server, cache):
    folder, url, asked = server
    (folder / "a.txt").write_bytes(b"hello")
    path = fetch(f"{url}/a.txt", sha256(b"hello"), cache / "deep" / "a.txt")
    assert path.read_bytes() == b"hello"
    assert left(cache) == [path]
    fetch(f"{url}/a.txt", sha256(b"hello"), path)
    assert len(asked) == 1  # what is there is not asked for again


def test_fetch_of_a_gzipped_file(server, cache):
    """The checksum is that of the text, which does not depend on who compressed it."""
    folder, url, _ = server
    for level in (1, 9):
        (folder / "a.gz").write_bytes(gzip.compress(b"hello" * 50, level, mtime=level))
        path = fetch(f"{url}/a.gz", sha256(b"hello" * 50), cache / f"{level}.gz")
        assert gzip.decompress(path.read_bytes()) == b"hello" * 50


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_a_wrong_checksum_is_refused(name, server, cache):
    folder, url, _ = server
    (folder / name).write_bytes(gzip.compress(b"other") if name == "a.gz" else b"other")
    with pytest.raises(InputError, match=rf"{sha256(b'other')}, not {sha256(b'hello')}.*{name}'.*--data_dir") as error:
        fetch(f"{url}/{name}", sha256(b"hello"), cache / name)
    assert "\n" not in str(error.value)
    assert not left(cache)


@pytest.mark.parametrize(
    "served", [b"<html>log in first</html>", gzip.compress(b"hello" * 99)[:-9]], ids=["a page", "cut off"]
)
def test_what_is_not_gzipped_is_refused(served, server, cache):
    folder, url, _ = server
    (folder / "a.gz").write_bytes(served)
    with pytest.raises(InputError, match=r"a\.gz.*--data_dir"):
        fetch(f"{url}/a.gz", sha256(b"hello" * 99), cache / "a.gz")
    assert not left(cache)


def test_not_there(server, cache):
    _, url, _ = server
    with pytest.raises(InputError, match=r"cannot be read \(.*404.*put a copy of it at .*a\.gz"):
        fetch(f"{url}/a.gz", sha256(b""), cache / "a.gz")


def test_cut_off(cache):
    """A server that promises more than it sends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")

        def log_message(self, form, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match="cannot be read"):
            fetch(f"http://127.0.0.1:{running.server_port}/a", sha256(b"half"), cache / "a")
        running.shutdown()
    assert not left(cache)


def test_no_network(cache, monkeypatch):
    monkeypatch.setattr(multi30k, "_SOURCE", "http://127.0.0.1:9")  # nothing listens there
    task = Translation(corpus="multi30k")
    with pytest.raises(InputError, match=rf"put a copy of it at '{cache}/multi30k/train\.en\.gz'") as error:
        task.pairs("train")
    assert "\n" not in str(error.value)


def test_a_copy_put_there_by_hand_needs_no_network(cache, monkeypatch):
    texts = {"train.en.gz": b"a dog\n", "train.de.gz": b"ein Hund\n"}
    monkeypatch.setattr(multi30k, "_SOURCE", "http://127.0.0.1:9")
    monkeypatch.setattr(multi30k, "_FILES", {"commit/raw": {name: sha256(text) for name, text in texts.items()}})
    (cache / "multi30k").mkdir(parents=True)
    for name, text in texts.items():
        (cache / "multi30k" / name).write_bytes(gzip.compress(text))
    assert Translation(corpus="multi30k").pairs("train") == (["a dog"], ["ein Hund"])
    (cache / "multi30k" / "train.de.gz").write_bytes(gzip.compress(b"zwei Hunde\n"))
    with pytest.raises(InputError, match=r"train\.de\.gz has the checksum .*not the file that was expected"):
        Translation(corpus="multi30k").pairs("train")


def test_only_the_files_of_a_split_are_downloaded(server, cache, monkeypatch):
    folder, url, asked = server
    texts = {"val.en.gz": b"a dog\n", "val.de.gz": b"ein Hund\n"}
    monkeypatch.setattr(multi30k, "_SOURCE", url)
    monkeypatch.setattr(multi30k, "_FILES", {"commit/raw": {name: sha256(text) for name, text in texts.items()}})
    (folder / "commit/raw").mkdir(parents=True)
    for name, text in texts.items():
        (folder / "commit/raw" / name).write_bytes(gzip.compress(text))
    assert Translation(corpus="multi30k").pairs("valid") == (["a dog"], ["ein Hund"])
    assert sorted(asked) == ["/commit/raw/val.de.gz", "/commit/raw/val.en.gz"]
    assert sorted(path.name for path in left(cache)) == ["val.de.gz", "val.en.gz"]


def test_a_stem_that_multi30k_does_not_have(cache):
    with pytest.raises(InputError, match=r"has no test_2099\.en"):
        Translation(corpus="multi30k", test="test_2099").pairs("test")


def test_where_downloads_are_kept(monkeypatch):
    monkeypatch.delenv("ATTENTION_ZOO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_directory() == Path("/somewhere/attention-zoo")
    monkeypatch.setenv("ATTENTION_ZOO_DATA", "/elsewhere")
    assert cache_directory() == Path("/elsewhere")


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no {SHARED}")
@pytest.mark.parametrize("suffix", ["", ".lc.norm.tok"])
def test_the_pinned_checksums_are_those_of_the_data(suffix, server, cache, monkeypatch):
    folder, url, _ = server
    monkeypatch.setattr(multi30k, "_SOURCE", url)
    for where, files in multi30k._FILES.items():
        (folder / where).mkdir(parents=True)
        for name in files:
            kind = "tok" if ".tok" in name else "raw"
            data = (SHARED / kind / f"{name.removesuffix('.gz')}.gz").read_bytes()
            (folder / where / name).write_bytes(data if name.endswith(".gz") else gzip.decompress(data))
    stems = {"train": f"train{suffix}", "valid": f"val{suffix}", "test": f"test_2016_flickr{suffix}"}
    task = Translation(corpus="multi30k", **stems)
    for split, size in (("train", 29_000), ("valid", 1_014), ("test", 1_000)):
        assert [len(texts) for texts in task.pairs(split)] == [size, size], split
    assert len(left(cache)) == 6
    first = task.pairs("test")
    assert first[0][0].lower().startswith("a man in an orange hat")
    assert first[1][0].lower().startswith("ein mann mit einem orangefarbenen hut")
