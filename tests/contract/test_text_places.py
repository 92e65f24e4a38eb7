"""Every table and column that can contain text of a person is part of an erasure, or free of text."""

import re
from pathlib import Path

from sqlalchemy import JSON, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from choir_control.agents.erasure.places import PLACES, BlankedRows
from choir_control.migrations.tables import METADATA

MIGRATIONS = Path(__file__).parents[2] / "services/memory/choir_memory/migrations"
CREATED = re.compile(r"CREATE TABLE \{schema\}\.(\w+)")
MEMORY = {
    "memory_documents": "erased with its session",
    "knowledge_documents": "erased with the documents that it rests on",
    "memory_embeddings": "deleted with its document",
    "knowledge_embeddings": "deleted with its document",
    "links": "deleted with its documents",
    "words": "kept equal to the words of the documents by triggers",
    "operations": "keys are removed with their documents",
    "sessions": "summary, topics and open chunks are blanked with the session",
    "embedding_queue": "deleted with its document",
    "session_feedback": "labels and ids",
    "audit": "ids, without text",
    "receipts": "ids and figures, without text and without the query",
    "cursors": "positions",
    "spaces": "names of agents",
    "embedding_models": "names of models",
    "space_changes": "ids of transactions",
    "folders": "of operators: not a person's",
    "folder_files": "of operators: not a person's",
}


def test_every_table_of_control_has_its_place_in_an_erasure() -> None:
    assert sorted(PLACES) == sorted(table.name for table in METADATA.sorted_tables)


def test_every_column_with_text_is_blanked_or_declared_free() -> None:
    kinds = (Text, JSON, JSONB, LargeBinary, ARRAY)
    for table in METADATA.sorted_tables:
        place = PLACES[table.name]
        if isinstance(place, BlankedRows):
            columns = {column.name for column in table.columns if isinstance(column.type, kinds)}
            assert columns == {*place.blank, *place.free}, table.name
            assert not place.free & set(place.blank)


def test_every_table_of_memory_has_its_place_in_an_erasure() -> None:
    created = {
        name
        for file in sorted(MIGRATIONS.rglob("*.sql"))
        for name in CREATED.findall(file.read_text())
    }
    assert created == set(MEMORY)
