from __future__ import annotations

import hashlib
from pathlib import Path
from threading import active_count

import pytest
from mulo_export.hashing import hash_file, hashing_aside

CONTENT = b"weights" * 100_000


def test_a_file_has_the_size_and_the_digest_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    found = hash_file(tmp_path / "file")
    assert (found.size, found.sha256) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def test_files_are_hashed_aside_and_waited_for(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("first", "second", "first")]
    for path in paths:
        path.write_bytes(CONTENT + path.name.encode())
    with hashing_aside(paths) as hashed:
        assert [hashed(path) for path in paths] == [hash_file(path) for path in paths]


def test_a_file_that_cannot_be_read_is_told_where_its_digest_is_asked_for(tmp_path: Path) -> None:
    with hashing_aside([tmp_path / "missing"]) as hashed, pytest.raises(FileNotFoundError):
        hashed(tmp_path / "missing")


@pytest.mark.timeout(30)
def test_an_error_beside_it_ends_hashing_at_once() -> None:
    threads = active_count()
    # A device without an end stands for a file that takes minutes.
    with pytest.raises(KeyboardInterrupt), hashing_aside([Path("/dev/zero")]):
        raise KeyboardInterrupt
    assert active_count() == threads
