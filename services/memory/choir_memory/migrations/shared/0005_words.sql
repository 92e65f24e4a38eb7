-- Triggers that keep an agent's table `words` equal to the words of its documents: Latin letters only, accents removed,
-- 4 to 32 of them, as stems. They run under the agent's role, which has no rights to this schema: nothing else is called.
-- `translate` is seven times as fast as a regular expression, and COLLATE "C" compares bytes. The lookup of each word is a
-- scalar subquery, because for NOT EXISTS the planner reads all words.
CREATE FUNCTION {schema}.add_words() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM changed) THEN
        RETURN NULL;
    END IF;
    -- no unique index: writers of the same new word would wait for each other, and could deadlock; a duplicate is harmless
    EXECUTE format($sql$
        INSERT INTO %1$I.words (word)
        SELECT t.term FROM (
            SELECT DISTINCT term COLLATE "C" AS term FROM changed, unnest(tsvector_to_array(changed.tsv)) AS term OFFSET 0
        ) AS t
        WHERE length(t.term) BETWEEN 4 AND 32 AND translate(t.term, 'abcdefghijklmnopqrstuvwxyz', '') = ''
          AND (SELECT k.word FROM %1$I.words k WHERE k.word = t.term LIMIT 1) IS NULL
    $sql$, TG_TABLE_SCHEMA);
    RETURN NULL;
END
$function$;

-- Deletes those of `gone` that are in no document any more. Words of a few documents are left out first: the index
-- reads all documents with a word, which takes milliseconds for a common one.
CREATE FUNCTION {schema}.remove_words() RETURNS trigger LANGUAGE plpgsql AS $function$
DECLARE
    gone text[];
BEGIN
    IF TG_OP = 'DELETE' THEN
        SELECT array_agg(DISTINCT term COLLATE "C") INTO gone FROM changed, unnest(tsvector_to_array(changed.tsv)) AS term;
    ELSE
        EXECUTE format($sql$
            INSERT INTO %1$I.words (word)
            SELECT t.term FROM (SELECT DISTINCT term COLLATE "C" AS term FROM unnest(tsvector_to_array($1)) AS term) AS t
            WHERE length(t.term) BETWEEN 4 AND 32 AND translate(t.term, 'abcdefghijklmnopqrstuvwxyz', '') = ''
              AND (SELECT k.word FROM %1$I.words k WHERE k.word = t.term LIMIT 1) IS NULL
        $sql$, TG_TABLE_SCHEMA) USING NEW.tsv;
        SELECT array_agg(term) INTO gone FROM (
            SELECT unnest(tsvector_to_array(OLD.tsv)) EXCEPT SELECT unnest(tsvector_to_array(NEW.tsv))) AS t (term);
    END IF;
    IF gone IS NULL THEN
        RETURN NULL;
    END IF;
    -- one at a time: two that erase the last two documents with a word would each see the other's
    PERFORM pg_advisory_xact_lock(hashtextextended(TG_TABLE_SCHEMA || ' words', 0));
    EXECUTE format($sql$
        DELETE FROM %1$I.words k
        USING (
            SELECT term COLLATE "C" AS term FROM unnest($1) AS term
            EXCEPT SELECT unnest(tsvector_to_array(tsv)) FROM (
                (SELECT tsv FROM %1$I.memory_documents ORDER BY id LIMIT 50)
                UNION ALL (SELECT tsv FROM %1$I.knowledge_documents ORDER BY id LIMIT 50)) AS few
        ) AS g
        WHERE k.word = g.term
          AND NOT EXISTS (SELECT FROM %1$I.memory_documents d WHERE d.tsv @@ k.word::text::tsquery)
          AND NOT EXISTS (SELECT FROM %1$I.knowledge_documents d WHERE d.tsv @@ k.word::text::tsquery)
    $sql$, TG_TABLE_SCHEMA) USING gone;
    RETURN NULL;
END
$function$;
