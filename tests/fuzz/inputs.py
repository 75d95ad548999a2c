"""Files that nobody should trust: good ones of every kind, damaged or written by somebody hostile."""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import scipy.sparse

from clusterwise.pretrained import weights_path

__all__ = ["SECRET", "Input", "make_input"]

SECRET = "secret"  # the folder, next to the input, that holds what no file may reach
HOSTILE_TEXTS = (
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u202eevil", "=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-2+3",
    "a\rb", "a\nb", "\x00", "\ud800", "x" * 5000, "", " ", '"', "'", "<script>alert(1)</script>",
    "\u0000\u0007",
    "1e400", "-1e400", "nan", "inf", "5e-324", "0x10", "1_000", "９９", "½", "2024-02-31", "31/12/9999",
    "$(1)",
    "(1,234)", "٣", "1.5.5", "--5", "%", "€", "\u2028", "\ufeff", "../../etc/passwd", "/etc/passwd", "{0}",
    "%s",
)  # fmt: skip
NUMBERS = (
    0,
    1,
    -1,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    -(2**63),
)

Rng = np.random.Generator


@dataclass(frozen=True)
class Input:
    """A file, and what is done with it: "table", "weights" or "recipe"."""

    name: str
    data: bytes
    use: str
    origin: str  # how it was made, for reports


def pick(rng: Rng, items: Any) -> Any:
    """One of the items."""
    items = list(items)
    return items[int(rng.integers(len(items)))]


# -- good files -------------------------------------------------------------------------------------


def points(n: int = 24) -> np.ndarray:
    """Two heaps of points."""
    rng = np.random.default_rng(0)
    return np.repeat([[0.0, 0.0], [9.0, 4.0]], n // 2, axis=0) + rng.normal(size=(n, 2))


@cache
def good_files() -> dict[str, bytes]:
    """A good file of every format by its name."""
    values = points()
    frame = pd.DataFrame({"x": values[:, 0], "y": values[:, 1]})
    frame["size"] = ["small", "large", "medium", None] * (len(frame) // 4)
    frame["day"] = pd.date_range("2024-01-01", periods=len(frame))
    text = frame.to_csv(index=False).encode()
    german = frame.to_csv(index=False, sep=";", decimal=",").encode("cp1252")
    files = {
        "data.csv": text, "german.csv": german, "wide.csv": frame.to_csv(index=False).encode("utf-16"),
        "data.tsv": frame.to_csv(index=False, sep="\t").encode(), "spaces.txt": _saved_text(values),
        "data.csv.gz": gzip.compress(text, mtime=0), "data.csv.bz2": bz2.compress(text),
        "data.csv.zst": _zstd(text), "data.csv.zip": _zip({"data.csv": text}),
        "data.npy": _npy(values), "integers.npy": _npy(values.astype(">i4")), "flags.npy": _npy(values > 1),
        "record.npy": _npy(np.array([(1.0, 2), (3.0, 4)], dtype=[("a", "f8"), ("b", "i4")])),
        "data.npz": _zip({"X.npy": _npy(values)}), "data.xlsx": _workbook(frame),
        "data.parquet": _buffer(lambda f: frame.to_parquet(f, coerce_timestamps=None)),
        "zones.parquet": _buffer(
            lambda f: frame.assign(day=frame["day"].dt.tz_localize("Europe/Paris")).to_parquet(f)
        ),
        "data.arrow": _buffer(lambda f: _ipc(_plain(frame), f)),
        "data.feather": _buffer(lambda f: pyarrow.feather.write_feather(_plain(frame), f, compression="lz4")),
        "sparse.npz": _buffer(lambda f: scipy.sparse.save_npz(f, _sparse())), "csc.npz": _buffer(
            lambda f: scipy.sparse.save_npz(f, _sparse().tocsc(), compressed=False)
        ),
        "coo.npz": _buffer(lambda f: scipy.sparse.save_npz(f, _sparse().tocoo())),
        "embedded.h5ad": _h5ad(_embedded), "counts.h5ad": _h5ad(_counts), "dense.h5ad": _h5ad(_dense),
    }  # fmt: skip
    return files


def _plain(frame: pd.DataFrame) -> pa.Table:
    """All kinds of Arrow's columns."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    words = ["small", None] * (len(frame) // 2)
    table = table.append_column("dictionary", pa.array(words).dictionary_encode())
    table = table.append_column("list", pa.array([[1, 2], []] * (len(frame) // 2)))
    table = table.append_column("struct", pa.array([{"a": 1}] * len(frame)))
    return table.append_column("large", pa.array(words, pa.large_string())).append_column(
        "view", pa.array(words, pa.string_view())
    )


def _ipc(table: pa.Table, file: Any) -> None:
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _saved_text(values: np.ndarray) -> bytes:
    return _buffer(lambda f: np.savetxt(f, values, header="x y"))


def _zstd(data: bytes) -> bytes:
    out = io.BytesIO()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
        stream.flush()
        written = out.getvalue
    return written() if not out.closed else pa.compress(data, "zstd", asbytes=True)


def _buffer(write: Callable[[io.BytesIO], Any]) -> bytes:
    buffer = io.BytesIO()
    buffer.close = lambda: None  # type: ignore[method-assign]
    write(buffer)
    return buffer.getvalue()


def _npy(array: np.ndarray) -> bytes:
    return _buffer(lambda f: np.save(f, array))


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _workbook(frame: pd.DataFrame) -> bytes:
    return _buffer(lambda f: frame.to_excel(f, index=False))


def _sparse() -> scipy.sparse.csr_array:
    return scipy.sparse.random_array((24, 9), density=0.4, rng=np.random.default_rng(0), format="csr")


def _h5ad(fill: Callable[[h5py.File], None]) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
    return buffer.getvalue()


def _embedded(file: h5py.File) -> None:
    file["obsm/X_pca"] = points()
    file["obs/_index"] = [f"cell {i}" for i in range(24)]
    file["obs"].attrs["_index"] = "_index"
    _counts(file)


def _counts(file: h5py.File) -> None:
    matrix = _sparse()
    for part in ("data", "indices", "indptr"):
        file[f"X/{part}"] = getattr(matrix, part)
    file["X"].attrs.update({"encoding-type": "csr_matrix", "shape": matrix.shape})


def _dense(file: h5py.File) -> None:
    file["X"] = points()


# -- damage -----------------------------------------------------------------------------------------


def damaged(rng: Rng, data: bytes) -> bytes:
    """Data with one to four things wrong."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        if not found:
            break
        at, length = int(rng.integers(len(found))), int(rng.integers(1, 40))
        match int(rng.integers(8)):
            case 0 | 1:
                found[at] ^= 1 << int(rng.integers(8))
            case 2:
                found[at] = int(rng.integers(256))
            case 3:
                size = int(pick(rng, (1, 2, 4, 8)))
                number = int(pick(rng, NUMBERS)) % 256**size
                found[at : at + size] = number.to_bytes(size, pick(rng, ("little", "big")))
            case 4:
                del found[at : at + length]
            case 5:
                found[at:at] = found[at : at + length] * int(pick(rng, (1, 2, 50)))
            case 6:
                del found[at:]
            case 7:
                found[at:at] = pick(rng, HOSTILE_TEXTS).encode("utf-8", "surrogatepass")
    return bytes(found)


def _damaged_inside(rng: Rng, name: str, data: bytes) -> bytes:
    """Damage below the compression."""
    if name.endswith(".gz"):
        return gzip.compress(damaged(rng, gzip.decompress(data)), mtime=0)
    if name.endswith((".zip", ".npz", ".xlsx")):
        members = _members(data)
        broken = pick(rng, members)
        members[broken] = damaged(rng, members[broken])
        if rng.random() < 0.2:
            del members[pick(rng, members)]
        return _zip(members)
    return damaged(rng, data)


def _from_good(rng: Rng) -> Input:
    name = pick(rng, good_files())
    data = good_files()[name]
    inside = rng.random() < 0.5
    data = _damaged_inside(rng, name, data) if inside else damaged(rng, data)
    if rng.random() < 0.05:  # an ending that lies
        name = pick(rng, good_files())
    return Input(name, data, "table", f"damaged {'inside' if inside else ''}")


# -- hostile tables ---------------------------------------------------------------------------------


def _text(rng: Rng) -> Input:
    """Rows of strange cells."""
    separator, end = pick(rng, ",;\t| "), pick(rng, ("\n", "\r\n", "\r"))
    width, n_rows = int(rng.integers(1, 6)), int(rng.integers(0, 30))
    odd = rng.random() * 0.5

    def cell() -> str:
        text = pick(rng, HOSTILE_TEXTS) if rng.random() < odd else f"{rng.normal():.3f}"
        return '"' + text.replace('"', '""') + '"' if rng.random() < 0.2 else text

    rows = [[cell() for _ in range(width + (rng.random() < 0.02))] for _ in range(n_rows)]
    if rng.random() < 0.7:
        rows.insert(0, [pick(rng, (*HOSTILE_TEXTS, "a", "b", "c")) for _ in range(width)])
    text = end.join(separator.join(row) for row in rows)
    encoding = pick(rng, ("utf-8", "utf-8", "utf-16", "latin-1", "cp1252"))
    data = text.encode(encoding, "replace" if encoding != "utf-8" else "surrogatepass")
    return Input(pick(rng, ("text.csv", "text.tsv", "text.txt")), data, "table", "text")


def _many_names(rng: Rng) -> Input:
    n, name = int(pick(rng, (1000, 20_000, 200_000))), pick(rng, ("a", "", "1", "5" * 5000, "x" * 100_000))
    n = min(n, 4_000_000 // max(1, len(name)))
    lines = [",".join([name] * n), *[",".join(["1.5"] * n)] * 3]
    return Input("names.csv", "\n".join(lines).encode(), "table", f"{n} columns {name[:10]!r}")


def _bomb(rng: Rng) -> Input:
    """Small files that become large ones."""
    n = int(pick(rng, (10**7, 10**8, 10**9)))
    chunk = pick(rng, (b"1,2\n", b"0\n", b"\0", b"\n", b"a,b,c,d,e\n"))
    kind = pick(rng, ("csv.gz", "csv.zip", "npz", "h5ad", "xlsx", "parquet", "csv.bz2"))
    match kind:
        case "csv.gz":
            data = _gzip_of(chunk, n)
        case "csv.bz2":
            data = bz2.compress(chunk * (n // 100 // len(chunk))) * 10
        case "csv.zip":
            data = _zip_of("data.csv", chunk, n)
        case "npz":
            rows = n // 8
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                header, {"descr": "<f8", "fortran_order": False, "shape": (rows, 1)}
            )
            data = _zip_of("X.npy", b"\0" * 8, rows * 8, header.getvalue())
        case "h5ad":
            data = _h5ad(lambda file: file.create_dataset("obsm/X_pca", (n // 8, 2), "f8", chunks=(1000, 2)))
        case "xlsx":
            members = _members(good_files()["data.xlsx"])
            row = b'<row><c t="n"><v>1</v></c></row>'
            body = row * (n // 100 // len(row))
            sheet = "xl/worksheets/sheet1.xml"
            members[sheet] = re.sub(
                rb"<sheetData>.*</sheetData>", b"<sheetData>" + body + b"</sheetData>", members[sheet]
            )
            data = _zip(members)
        case _:
            column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n // 100, np.int32)), ["a"])
            data = _buffer(lambda f: pyarrow.parquet.write_table(pa.table({"a": column, "b": column}), f))
    return Input(f"bomb.{kind}", data, "table", f"bomb {n} {chunk!r}")


@cache
def _gzip_of(chunk: bytes, n: int) -> bytes:
    block = chunk * (10**6 // len(chunk))
    packed = gzip.compress(block, 6, mtime=0)
    return packed * (n // len(block))  # members follow each other


@cache
def _zip_of(name: str, chunk: bytes, n: int, start: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    block, member_of = chunk * (10**6 // len(chunk)), zipfile.ZipInfo(name)
    member_of.compress_type = zipfile.ZIP_DEFLATED  # which it does not take from the archive
    with (
        zipfile.ZipFile(buffer, "w") as archive,
        archive.open(member_of, "w", force_zip64=True) as member,
    ):
        member.write(start)
        for _ in range(min(n, 3 * 10**8) // len(block)):
            member.write(block)
    return buffer.getvalue()


def _strange_zip(rng: Rng) -> Input:
    """Encrypted members, methods that nobody knows, names that are hostile, several members."""
    name = pick(rng, ("data.csv.zip", "data.npz", "data.xlsx", "sparse.npz"))
    data = bytearray(good_files()[name])
    what = pick(rng, ("encrypted", "method", "names", "twice", "stored", "sizes"))
    places = (
        [match.start() for match in re.finditer(b"PK\x03\x04", data)],
        [match.start() for match in re.finditer(b"PK\x01\x02", data)],
    )
    if what in ("encrypted", "method", "sizes"):
        at, value = {
            "encrypted": (6, 1),
            "method": (8, int(pick(rng, (1, 9, 12, 14, 93, 99)))),
            "sizes": (22, 255),
        }[what]
        for start in places[0]:
            data[start + at] = value
        for start in places[1]:
            data[start + at + 2] = value
        return Input(name, bytes(data), "table", f"zip {what}")
    members = _members(bytes(data))
    if what == "names":
        members = {
            pick(rng, HOSTILE_TEXTS).replace("\ud800", "")[:99] + member: d for member, d in members.items()
        }
    elif what == "twice":
        members |= {
            "other.csv": b"a,b\n1,2\n",
            pick(rng, HOSTILE_TEXTS)[:99].replace("\ud800", ""): b"1\n2\n",
        }
    return Input(name, _zip(members, zipfile.ZIP_STORED), "table", f"zip {what}")


def _array(rng: Rng) -> Input:
    """npy files whose header does not fit what follows, or with strange types."""
    descr = pick(
        rng,
        (
            "<f8",
            ">f8",
            "<f2",
            ">i4",
            "|b1",
            "|O",
            "<U3",
            "|S5",
            "<c16",
            "<M8[ns]",
            "<m8[s]",
            "|V4",
            "<f16",
            ">u8",
        ),
    )
    shape = pick(rng, ("(10, 2)", "(10,)", "()", "(0, 2)", "(10**12, 2)", "(1000000000000, 2)", "(-1, 2)",
    "(2, 5000000)", "(4, 2, 2)", "(5, 0)", "'x'", "(1.5, 2)"))  # fmt: skip
    fortran = pick(rng, ("False", "True", "1", "None"))
    header = pick(
        rng,
        (
            f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}",
            f"{{'descr': [('a', '{descr}'), ('b', '<f8')], 'fortran_order': False, 'shape': {shape}}}",
            "(" * 200 + ")" * 200, "[" * 9000, "{'descr': __import__('os')}", "{}", "\x00" * 20,
        ),
    )  # fmt: skip
    version = int(pick(rng, (1, 1, 1, 2, 3, 9)))
    encoded = header.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(encoded))
    body = rng.bytes(int(pick(rng, (0, 80, 160, 320, 1000))))
    data = b"\x93NUMPY" + bytes([version, 0]) + length + encoded + body
    packed = rng.random() < 0.3
    return Input(
        "array.npz" if packed else "array.npy", _zip({"X.npy": data}) if packed else data, "table", "npy"
    )


def _sparse_file(rng: Rng) -> Input:
    """Sparse matrices whose parts do not belong together, as npz and h5ad."""
    matrix, kind = _sparse(), pick(rng, ("csr", "csc", "coo", "dia", "bsr"))
    parts: dict[str, Any] = {
        "format": np.array(kind.encode()),
        "shape": np.array(matrix.shape),
        "data": matrix.data,
    }
    made = matrix.asformat(kind)
    for name in ("data", "indices", "indptr", "row", "col", "offsets"):
        if isinstance(getattr(made, name, None), np.ndarray):
            parts[name] = getattr(made, name).copy()
    for _ in range(int(rng.integers(1, 3))):
        name = pick(rng, parts)
        match int(rng.integers(6)):
            case 0:
                del parts[name]
            case 1 | 2 if parts.get(name, np.array("")).dtype.kind in "iuf" and parts[name].size:
                values = parts[name].astype(pick(rng, (np.int64, np.int32, np.float64)))
                values.flat[int(rng.integers(values.size))] = pick(rng, (10**9, -1, 2**31 - 1, -5, 10**6))
                parts[name] = values
            case 3:
                parts[name] = np.array([pick(rng, ("csr", "x", b"\x1b[31m"))])
            case 4:
                parts[name] = np.array(pick(rng, ([10**9, 10**9], [3], [24, 10**12], [-1, 5], [2.5, 3], [])))
            case _:
                parts[name] = (
                    parts[name][..., : int(rng.integers(0, 5))] if np.ndim(parts.get(name)) else np.zeros(3)
                )
        if not parts:
            break
    if rng.random() < 0.4:

        def fill(file: h5py.File) -> None:
            for name, values in parts.items():
                if name in ("data", "indices", "indptr"):
                    file[f"X/{name}"] = values if values.dtype.kind != "U" else values.astype("S")
            group = file.require_group("X")
            group.attrs["encoding-type"] = f"{kind}_matrix"
            if "shape" in parts and parts["shape"].dtype.kind != "U":
                group.attrs["shape"] = parts["shape"]

        return Input("sparse.h5ad", _h5ad(fill), "table", "sparse")
    return Input("sparse.npz", _buffer(lambda f: np.savez(f, **parts)), "table", "sparse")


def _annotated(rng: Rng) -> Input:
    """AnnData files that reach outside of themselves, or hold other things than numbers."""

    def fill(file: h5py.File) -> None:
        _counts(file) if rng.random() < 0.5 else None
        group = pick(rng, ("obsm", "obs", "other"))
        place = pick(rng, ("obsm/X_pca", "X2", "obs/_index", "obsm"))
        match int(rng.integers(9)):
            case 0:
                file[place] = h5py.ExternalLink(f"{SECRET}/secret.h5", "/data")
            case 1:
                file.create_dataset(place, (4, 2), "f8", external=[(f"{SECRET}/secret.bin", 0, 64)])
            case 2:
                layout = h5py.VirtualLayout((4, 2), "f8")
                layout[:] = h5py.VirtualSource(f"{SECRET}/secret.h5", "data", (4, 2))
                file.create_virtual_dataset(place, layout)
            case 3:
                file[place] = h5py.SoftLink(pick(rng, ("/nowhere", f"/{place}", "/", "/X")))
            case 4:
                file.require_group(group)["X_umap"] = pick(
                    rng, (np.zeros(5), np.zeros((0, 2)), np.float64(1), points())
                )
            case 5:
                file[place] = pick(
                    rng, (["a", "b"], np.array([b"x\xff"] * 3), h5py.Empty("f8"), np.zeros((3, 2), "c16"))
                )
            case 6:
                file[
                    "obsm/"
                    + pick(rng, HOSTILE_TEXTS).replace("\0", "").replace("\ud800", "").replace("/", "")[:99]
                    + "n"
                ] = points()
            case 7:
                file["obsm/X_pca"] = points()
                file.require_group("obs").attrs["_index"] = pick(rng, (5, "x", "../X", "/X", b"\xff", [1, 2]))
            case 8:
                file["obsm/X_pca"] = points(4)
                file["obs/_index"] = pick(
                    rng, (np.zeros(4), [b"\xff"] * 4, np.zeros((4, 4)), ["\x1b[31m"] * 4)
                )

    return Input("strange.h5ad", _h5ad(fill), "table", "h5ad")


def _sheet(rng: Rng) -> Input:
    """Workbooks with rows and cells anywhere, entities, damaged parts."""
    members = _members(good_files()["data.xlsx"])
    sheet = "xl/worksheets/sheet1.xml"
    value = pick(rng, ("1", "-1", "1e999", "99999999999", "x", "", "#N/A", "2958466", "&lol;", "5" * 5000))
    kind = pick(rng, ("n", "s", "b", "e", "d", "inlineStr", "str", "zzz", ""))
    place = pick(rng, ("A2", "XFD1048576", "ZZZZZZ9", "A0", "1A", "A99999999999", "", "B5"))
    row, style = pick(rng, (2, 1048576, 0, -1, 10**12, "x")), pick(rng, (0, 1, 999))
    cell = f'<row r="{row}"><c r="{place}" t="{kind}" s="{style}"><v>{value}</v></c></row>'
    text = members[sheet].decode()
    text = text.replace("</sheetData>", cell * int(pick(rng, (1, 3, 1000))) + "</sheetData>")
    if rng.random() < 0.3:
        text = re.sub(
            r'ref="[^"]*"', f'ref="A1:{pick(rng, ("XFD1048576", "A1", "ZZ", "B999999999"))}"', text, count=1
        )
    if rng.random() < 0.2:
        entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "ha"}">' for i in range(9))
        text = f"<!DOCTYPE x [{entities}<!ENTITY lol SYSTEM 'file:{SECRET}/secret.bin'>]>" + text.replace(
            "<v>1</v>", "<v>&a8;</v>"
        )
    members[sheet] = text.encode("utf-8")
    if rng.random() < 0.2:
        broken = pick(rng, members)
        members[broken] = pick(rng, (b"", b"<", b"<a/>", damaged(rng, members[broken])))
    return Input("sheet.xlsx", _zip(members), "table", "sheet")


def _metadata(rng: Rng) -> Input:
    """Parquet and Arrow files with strange metadata, types and names."""
    stamp = pick(rng, ("ns", "us", "s"))
    zone = pick(rng, (None, "UTC", "Mars/Olympus", "+99:99", "\x1b[31m"))
    n = int(pick(rng, (1, 4, 30)))
    columns: dict[str, Any] = {
        "when": pa.array([pick(rng, NUMBERS) for _ in range(n)], pa.int64()).cast(pa.timestamp(stamp,
        zone), safe=False),
        "x": pa.array(np.arange(n) * 1.5),
        pick(rng, HOSTILE_TEXTS[:-1]).replace("\ud800", ""): pa.array(np.arange(n) % 3),
        "odd": pick(
            rng,
            (
                pa.nulls(n), pa.array([b"\xff"] * n), pa.array([[1]] * n), pa.array([{"a": 1}] * n),
                pa.array(np.zeros(n, "f2")),
                pa.array(["\x1b[2J"] * n).dictionary_encode(), pa.array([2**63] * n, pa.uint64()),
                pa.array([10**30] * n, pa.decimal128(38)),
                pa.array([10**9] * n, pa.time64("ns")), pa.array([10**18] * n, pa.duration("ns")),
                pa.array(["=1+1"] * n),
                pa.array([2**30] * n, pa.date32()),
            ),
        ),
    }  # fmt: skip
    table = pa.table(columns)
    metadata = pick(
        rng,
        (
            b"no json",
            b"{}",
            b'{"index_columns": 5}',
            b"\xff",
            b'{"index_columns": [{"a": 1}, "x"]}',
            b"[]",
            b"null",
        ),
    )
    if rng.random() < 0.6:
        table = table.replace_schema_metadata({b"pandas": metadata})
    if rng.random() < 0.5 and stamp != "s":
        return Input(
            "strange.parquet", _buffer(lambda f: pyarrow.parquet.write_table(table, f)), "table", "metadata"
        )
    return Input("strange.arrow", _buffer(lambda f: _ipc(table, f)), "table", "metadata")


# -- weights and recipes ----------------------------------------------------------------------------

STRANGE_VALUES = (
    None, True, -1, 0, 1.5, 10**12, 16_000_000, 2_000_000, "", "x", "\x1b[31m", "a\0b", [], [1], {},
    {"a": 1}, 1e308,
    float("inf"), float("nan"), "../../x", "chigac", "node-judge", 10**30, [[]], "/etc/passwd",
)  # fmt: skip


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += _places(value, (*path, key))
    return found


def _changed(rng: Rng, tree: dict[str, Any]) -> dict[str, Any]:
    """A tree of options with one or two entries that are missing, strange or new."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 3))):
        place = pick(rng, _places(tree) or [("a",)])
        inner = tree
        for key in place[:-1]:
            inner = inner[key]
        match int(rng.integers(4)):
            case 0:
                inner.pop(place[-1], None)
            case 1:
                inner[pick(rng, ("new", "n_features", "width", "name", "method", "\x1b[31m"))] = pick(
                    rng, STRANGE_VALUES
                )
            case _:
                inner[place[-1]] = pick(rng, STRANGE_VALUES)
    return tree


@cache
def _safetensors(name: str) -> tuple[dict[str, Any], bytes]:
    data = weights_path(name).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def _weights(rng: Rng) -> Input:
    name = pick(
        rng,
        (
            "amcp-2d",
            "dac-minimum-loss-2d",
            "act-st-2d",
            "ncp-2d",
            "chigac-2d",
            "partition-judge",
            "dac-warped-2d",
        ),
    )
    header, tensors = _safetensors(name)
    header = copy.deepcopy(header)
    metadata = header["__metadata__"]
    what = pick(rng, ("recipe", "recipe", "facts", "metadata", "layout", "bytes"))
    if what in ("recipe", "facts"):
        tree = _changed(rng, {what: json.loads(metadata[what])})
        metadata[what] = json.dumps(tree.get(what)) if rng.random() < 0.95 else "{no json"
    elif what == "metadata":
        header["__metadata__"] = {k: str(v) for k, v in _changed(rng, metadata).items()}
    elif what == "layout":
        header = _changed(rng, header)
    encoded = json.dumps(header).encode()
    data = struct.pack("<Q", len(encoded)) + encoded + tensors
    data = damaged(rng, data[: 8 + len(encoded)]) + tensors if what == "bytes" else data
    return Input("weights.safetensors", data, "weights", f"{name} {what}")


@cache
def _recipes() -> list[dict[str, Any]]:
    import tomllib

    folder = Path(__file__).parents[2] / "recipes"
    return [tomllib.loads(path.read_text()) for path in sorted(folder.glob("*.toml"))]


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return (
                "{"
                + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items() if v is not None)
                + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case None:
            return '"none"'
        case str():
            return json.dumps(value)
    return repr(value)


def _recipe(rng: Rng) -> Input:
    tree = pick(rng, _recipes())
    if rng.random() < 0.8:
        tree = _changed(rng, tree)
    data = "\n".join(f"{json.dumps(key)} = {_toml(value)}" for key, value in tree.items()).encode()
    if rng.random() < 0.3:
        data = pick(
            rng, (damaged(rng, data), b"a = " + b"[" * 50_000, data * 2, data.decode().encode("utf-16"))
        )
    return Input("recipe.toml", data, "recipe", "recipe")


MAKERS: tuple[tuple[Callable[[Rng], Input], float], ...] = (
    (_from_good, 0.38), (_text, 0.1), (_many_names, 0.01), (_bomb, 0.01), (_strange_zip, 0.05), (_array,
    0.07),
    (_sparse_file, 0.08), (_annotated, 0.07), (_sheet, 0.06), (_metadata, 0.06), (_weights, 0.06),
    (_recipe, 0.05),
)  # fmt: skip


def make_input(seed: int, number: int) -> Input:
    """The input of that number: the same whenever it is asked for."""
    rng = np.random.default_rng([seed, number])
    makers, shares = zip(*MAKERS, strict=True)
    maker = makers[int(rng.choice(len(makers), p=np.array(shares) / sum(shares)))]
    return maker(rng)
