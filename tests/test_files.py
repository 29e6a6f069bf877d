"""The one writer leaves whole files only, and no file makes a reader allocate more than it may."""

import io
import math
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dpmsnc import files
from dpmsnc.errors import InputError
from dpmsnc.files import (
    LARGEST_JSON,
    json_value,
    make_folder,
    pack_arrays,
    parse_json,
    read_arrays,
    read_json,
    with_infinities,
    with_nan,
    write_json,
    write_whole,
)


def test_a_file_is_written_with_its_folders_and_ordinary_permissions(tmp_path):
    path = tmp_path / "new" / "folder" / "file.txt"
    write_whole(path, "ü")
    assert path.read_bytes() == b"\xc3\xbc"
    write_whole(path, b"bytes")
    assert path.read_bytes() == b"bytes" and os.listdir(path.parent) == ["file.txt"]
    (tmp_path / "ordinary").write_text("")
    assert path.stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["full disk", "interrupt"])
@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, operation, error):
    write_whole(tmp_path / "file", "old")

    def fail(*_):
        raise error

    monkeypatch.setattr(os, operation, fail)
    with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_whole(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_the_content_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    sync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("fsync"), sync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(Path(a).read_text()), move(a, b)))
    write_whole(tmp_path / "file", "all of it")
    assert events == ["fsync", "all of it", "fsync"]


def test_what_cannot_be_written_is_the_users_to_mend(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "new", tmp_path / "folder", tmp_path / ("n" * 300)):
        with pytest.raises(InputError, match="cannot write"):
            write_whole(path, "")
    with pytest.raises(InputError, match="cannot create the folder"):
        make_folder(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine" and sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_link_is_replaced_and_the_file_behind_it_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "mine").read_text() == "mine" and (tmp_path / "link").read_text() == "new"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folders_without_permission_are_named(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="cannot write"):
        write_whole(tmp_path / "file", "")
    with pytest.raises(InputError, match="not yours to write to"):
        make_folder(tmp_path)
    tmp_path.chmod(0o755)


def test_json_has_neither_nan_nor_infinity_nor_numpy(tmp_path):
    value = {"a": np.float32(0.5), 1: (np.int64(3), math.nan, -math.inf), "object": object(), "flag": np.bool_(True)}
    expected = {"a": 0.5, "1": [3, None, "-inf"], "object": "object", "flag": True}
    assert json_value(value) == expected
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == expected
    assert with_infinities({"clip": "inf", "low": "-inf", "word": "information"}) == {
        **{"clip": math.inf, "low": -math.inf},
        "word": "information",
    }
    assert with_nan([1, None])[0] == 1 and math.isnan(with_nan([1, None])[1])


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"a": ', b"\xff\xfe", b"[" * 10**6, b'{"a":' * 10**5, b" " * (LARGEST_JSON + 1), b"9" * 10**4],
    ids=["empty", "open", "half", "no text", "deep list", "deep object", "large", "long number"],
)
def test_bad_json_is_a_value_error(tmp_path, content):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(ValueError):
        read_json(tmp_path / "bad.json")


def test_endless_json_is_read_up_to_its_limit_only():
    with pytest.raises(ValueError, match="bytes of JSON"):
        read_json(Path("/dev/zero"))
    assert parse_json('"text"') == "text"


def test_json_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    write_json(tmp_path / "value.json", "old")
    monkeypatch.setattr(files, "LARGEST_JSON", 100)
    with pytest.raises(InputError, match="more than can be read again"):
        write_json(tmp_path / "value.json", "x" * 101)
    assert read_json(tmp_path / "value.json") == "old"


ARRAYS = {
    "numbers": np.arange(12.0).reshape(3, 4),
    "by_columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "text": np.array(["a", "éé"]),
    "one": np.array(7),
    "none": np.empty((2, 0)),
    "flags": np.array([True, False]),
}


@pytest.mark.parametrize("compressed", [True, False])
def test_arrays_come_back_as_they_were_and_only_those_asked_for(tmp_path, monkeypatch, compressed):
    if not compressed:
        monkeypatch.setattr(files, "SMALL_ARRAYS", 10)
    write_whole(tmp_path / "arrays.npz", pack_arrays(ARRAYS))
    assert all((info.compress_type == 8) == compressed for info in zipfile.ZipFile(tmp_path / "arrays.npz").infolist())
    arrays, names = read_arrays(tmp_path / "arrays.npz", [*ARRAYS, "absent"])
    assert names == arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert all(arrays[name].dtype == ARRAYS[name].dtype for name in ARRAYS)
    arrays, names = read_arrays(tmp_path / "arrays.npz", ["text"])
    assert arrays.keys() == {"text"} and names == ARRAYS.keys()


def npy(shape: str, descr: str = "'<f8'", data: bytes = b"") -> bytes:
    """An array in numpy's format whose header says what it likes."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(path: Path, content: bytes, name: str = "a.npy", declared: int | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    if declared is not None:  # what the zip directory says of the size
        data = bytearray(path.read_bytes())
        at = data.rindex(b"PK\x01\x02") + 24
        data[at : at + 4] = struct.pack("<I", declared)
        path.write_bytes(data)
    return path


CRAFTED = {
    "huge shape": npy("(1099511627776,)", data=bytes(80)),
    "huge in two directions": npy("(4294967296, 4294967296)", data=bytes(80)),
    "negative": npy("(-10,)", data=bytes(80)),
    "twice negative": npy("(-10, -1)", data=bytes(80)),
    "too short": npy("(10,)", data=bytes(79)),
    "too long": npy("(10,)", data=bytes(81)),
    "many empty entries": npy("(1099511627776,)", "'<U0'"),
    "many empty rows": npy("(1099511627776, 0)"),
    "objects": npy("(1,)", "'|O'", b"\x80\x04N."),
    "hidden objects": npy("(1,)", "[('a', '|O')]", b"\x80\x04N."),
    "large entries": npy("(1,)", "'|V2000000000'", bytes(80)),
    "no type": npy("(1,)", "'what'", bytes(8)),
    "no shape": npy("'wide'", data=bytes(8)),
    "no header": b"\x93NUMPY\x01\x00\xff\xff",
    "deep header": npy("-" * 9000 + "1", data=bytes(8)),
    "nested header": npy("(" * 3000, data=bytes(8)),
    "long header": npy("(1,)" + " " * 60000, data=bytes(8)),
    "later format": b"\x93NUMPY\x03\x00" + bytes(100),
    "no array": b"hello",
    "nothing": b"",
}


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_arrays_are_refused_before_anything_is_allocated(tmp_path, case):
    path = archive(tmp_path / "crafted.npz", CRAFTED[case])
    tracemalloc.start()
    with pytest.raises(InputError, match=r"crafted\.npz"):
        read_arrays(path, ["a"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 2**20


def test_arrays_that_are_not_asked_for_are_not_looked_at(tmp_path):
    path = archive(tmp_path / "crafted.npz", CRAFTED["objects"], name="other.npy")
    assert read_arrays(path, ["a"]) == ({}, {"other"})


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SMALL_ARRAYS", 2**20)
    content = npy(f"({2**20},)", data=bytes(8 * 2**20))
    with pytest.raises(InputError, match="without compression"):
        read_arrays(archive(tmp_path / "bomb.npz", content), ["a"])
    with zipfile.ZipFile(tmp_path / "plain.npz", "w") as file:
        file.writestr("a.npy", content)
    assert read_arrays(tmp_path / "plain.npz", ["a"])[0]["a"].shape == (2**20,)


def test_a_zip_directory_cannot_lie_about_a_size(tmp_path):
    header = len(npy("(1000000000,)"))
    lies = {
        "says too much": (npy("(1000000000,)", data=bytes(80)), header + 8 * 10**9 - 2**32),
        "says far too much": (npy("(500000000,)", data=bytes(80)), header - 1 + 4 * 10**9),
        "says too little": (npy("(1000,)", data=bytes(8000)), 100),
    }
    for name, (content, declared) in lies.items():
        path = archive(tmp_path / f"{name}.npz", content, declared=declared)
        with pytest.raises(InputError, match=name):
            read_arrays(path, ["a"])


def test_locked_and_strangely_packed_archives_are_refused(tmp_path):
    for name, at, value in [("locked", 8, 1), ("packed", 10, 99)]:
        path = archive(tmp_path / f"{name}.npz", npy("(1,)", data=bytes(8)))
        data = bytearray(path.read_bytes())
        data[data.rindex(b"PK\x01\x02") + at] = value  # flags, and the number of the compression
        path.write_bytes(data)
        with pytest.raises(InputError, match=name):
            read_arrays(path, ["a"])


def test_no_damage_to_an_archive_ends_in_anything_but_an_input_error(tmp_path):
    whole = pack_arrays({"a": np.arange(50), "text": np.array(["x", "yy"])})
    random = np.random.default_rng(0)
    path = tmp_path / "damaged.npz"
    refused = 0
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError):
            read_arrays(path, ["a", "text"])
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= random.integers(1, 256)
        path.write_bytes(damaged)
        try:
            read_arrays(path, ["a", "text"])
        except InputError:
            refused += 1
    assert refused > len(whole) / 3


def test_what_is_no_archive_is_named(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(2))
    for path in (tmp_path / "array.npy", tmp_path / "absent.npz", tmp_path):
        with pytest.raises(InputError, match=path.name):
            read_arrays(path, ["a"])
    buffer = io.BytesIO()
    np.savez(buffer, a=np.array([None]))
    write_whole(tmp_path / "pickled.npz", buffer.getvalue())
    with pytest.raises(InputError, match="Python objects"):
        read_arrays(tmp_path / "pickled.npz", ["a"])
