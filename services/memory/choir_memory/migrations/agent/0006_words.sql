-- The vocabulary of all documents, for queries with misspelt words. Triggers keep it (shared/0005_words.sql), so that
-- erasing the last document with a word erases the word. No text column: a TOAST table would be two more relations.
CREATE TABLE {schema}.words (word varchar(32) COLLATE "C" NOT NULL);
INSERT INTO {schema}.words (word)
SELECT DISTINCT term
FROM (SELECT tsv FROM {schema}.memory_documents UNION ALL SELECT tsv FROM {schema}.knowledge_documents) AS d,
     unnest(tsvector_to_array(d.tsv)) AS term
WHERE length(term) BETWEEN 4 AND 32 AND translate(term, 'abcdefghijklmnopqrstuvwxyz', '') = '';
CREATE INDEX words_word ON {schema}.words (word);

CREATE TRIGGER add_words AFTER INSERT ON {schema}.memory_documents
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.add_words();
CREATE TRIGGER add_words AFTER INSERT ON {schema}.knowledge_documents
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.add_words();
CREATE TRIGGER remove_words AFTER DELETE ON {schema}.memory_documents
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.remove_words();
CREATE TRIGGER remove_words AFTER DELETE ON {schema}.knowledge_documents
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION choir_memory.remove_words();
-- for each row: Postgres allows no list of columns with transition tables, and most updates change no text
CREATE TRIGGER replace_words AFTER UPDATE OF tsv ON {schema}.memory_documents
    FOR EACH ROW WHEN (OLD.tsv IS DISTINCT FROM NEW.tsv) EXECUTE FUNCTION choir_memory.remove_words();
CREATE TRIGGER replace_words AFTER UPDATE OF tsv ON {schema}.knowledge_documents
    FOR EACH ROW WHEN (OLD.tsv IS DISTINCT FROM NEW.tsv) EXECUTE FUNCTION choir_memory.remove_words();

GRANT SELECT, INSERT, DELETE ON {schema}.words TO {schema};
