"""Take the table of word vectors out of an ONNX model, so that it stays in the file.

onnxruntime converts all 8-bit weights to 32 bits when it loads a model. The table is half of them: 47 MB.
A text needs only the rows of its words. The part of the protobuf format that is needed is read
and written here; the package `onnx` would take more memory than this saves.
"""

import mmap
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

# field numbers of ModelProto, GraphProto, NodeProto, TensorProto and ValueInfoProto
_GRAPH = 7
_NODE, _INITIALIZER, _GRAPH_INPUT = 1, 5, 11
_NODE_INPUT, _NODE_OUTPUT = 1, 2
_DIMENSION, _TENSOR_NAME, _RAW_DATA = 1, 8, 9
_VALUE_NAME, _VALUE_TYPE = 1, 2
_FLOAT32 = 1
"""Element type of TensorProto."""
_LENGTHS = {1: 8, 5: 4}
"""Bytes of a value by wire type."""
_VARINT, _BYTES = 0, 2
"""Wire types of a number, and of texts, bytes and messages."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class WordTable:
    """The vectors of all tokens: rows of 8-bit integers in the file, and a scale for each row."""

    rows: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]
    file: mmap.mmap

    def vectors(self, token_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the vectors of these tokens."""
        return self.rows[token_ids].astype(np.float32) * self.scales[token_ids]

    def release_memory(self) -> None:
        """Return the memory of rows that were read; the next use reads them from the file again."""
        if sys.platform == "linux":
            self.file.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class SplitModel:
    """A model that takes vectors of tokens as its input `vector_input`, and the table of these vectors."""

    content: bytes
    vector_input: str
    table: WordTable


class _Field(NamedTuple):
    """A field of a protobuf message; a number as value has no end."""

    number: int
    start: int
    value: int
    end: int


def split_model(path: Path, token_input: str) -> SplitModel:
    """Return the model at `path` without the table whose rows `token_input` selects.

    Raises ValueError when the model has no such table.
    """
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    model = list(_fields(content, 0, len(content)))
    graph = next(field for field in model if field.number == _GRAPH)
    try:
        nodes, table, vector_input = _find_table(content, graph, token_input)
    except (KeyError, StopIteration) as error:
        raise ValueError(f"{path} has no table of word vectors that can be taken out") from error
    graph_fields = [
        field for field in _fields(content, graph.value, graph.end) if field.start not in nodes
    ]
    new_input = _tensor_input(vector_input, table.rows.shape[1])
    new_graph = b"".join((*_copies(content, graph_fields), new_input))
    others = _copies(content, (field for field in model if field is not graph))
    return SplitModel(b"".join((*others, _message(_GRAPH, new_graph))), vector_input, table)


def _find_table(
    content: mmap.mmap, graph: _Field, token_input: str
) -> tuple[set[int], WordTable, str]:
    """Return the positions of the fields to leave out, the table, and the name of its vectors.

    The graph computes the vectors as Gather(Mul(Cast(rows), scales), token ids).
    """
    fields = list(_fields(content, graph.value, graph.end))
    nodes = [field for field in fields if field.number == _NODE]
    by_output = {name: node for node in nodes for name in _texts(content, node, _NODE_OUTPUT)}
    by_name = {
        name: field
        for number, name_number in ((_INITIALIZER, _TENSOR_NAME), (_GRAPH_INPUT, _VALUE_NAME))
        for field in fields
        if field.number == number
        for name in _texts(content, field, name_number)
    }
    gather = next(node for node in nodes if token_input in _texts(content, node, _NODE_INPUT))
    product = by_output[_texts(content, gather, _NODE_INPUT)[0]]
    factors = _texts(content, product, _NODE_INPUT)
    cast = by_output[factors[0]]
    rows = by_name[_texts(content, cast, _NODE_INPUT)[0]]
    scales = by_name[factors[1]]
    table = WordTable(
        _array(content, rows, np.int8), _array(content, scales, np.float32).copy(), content
    )
    parts = (gather, product, cast, rows, scales, by_name[token_input])
    (vector_input,) = _texts(content, gather, _NODE_OUTPUT)
    return {field.start for field in parts}, table, vector_input


def _array(content: mmap.mmap, tensor: _Field, kind: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return the values of a tensor; they stay in the file."""
    fields = list(_fields(content, tensor.value, tensor.end))
    shape = [field.value for field in fields if field.number == _DIMENSION]
    raw = next(field for field in fields if field.number == _RAW_DATA)
    count = int(np.prod(shape))
    return np.frombuffer(content, kind, count, raw.value).reshape(shape)


def _fields(content: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    """Yield the fields of the message between two positions."""
    at = start
    while at < end:
        begin = at
        key, at = _varint(content, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(content, at)
        else:
            length = _LENGTHS.get(wire_type)
            if length is None:
                length, at = _varint(content, at)
            value, at = at, at + length
        yield _Field(number, begin, value, at)


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7


def _texts(content: mmap.mmap, message: _Field, number: int) -> list[str]:
    fields = _fields(content, message.value, message.end)
    return [content[field.value : field.end].decode() for field in fields if field.number == number]


def _copies(content: mmap.mmap, fields: Iterable[_Field]) -> Iterator[bytes]:
    return (content[field.start : field.end] for field in fields)


def _tensor_input(name: str, dimensions: int) -> bytes:
    """Return the declaration of an input of 32-bit vectors by text and position."""
    sizes = (_message(2, b"batch"), _message(2, b"sequence"), _number(1, dimensions))
    shape = b"".join(_message(1, size) for size in sizes)
    tensor = _number(1, _FLOAT32) + _message(2, shape)
    value = _message(_VALUE_NAME, name.encode()) + _message(_VALUE_TYPE, _message(1, tensor))
    return _message(_GRAPH_INPUT, value)


def _message(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _encoded(number << 3 | _VARINT) + _encoded(value)


def _encoded(number: int) -> bytes:
    """Return a number as varint."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))
