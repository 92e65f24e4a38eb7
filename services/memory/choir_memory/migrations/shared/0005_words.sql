-- Triggers that keep an agent's table `words` equal to the words of its documents: Latin letters only, accents removed,
-- 4 to 32 of them, as stems. They run under the agent's role, which has no rights to this schema: nothing else is called.
CREATE FUNCTION {schema}.add_words() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM changed) THEN
        RETURN NULL;
    END IF;
    -- no unique index: writers of the same new word would wait for each other, and could deadlock; a duplicate is harmless
    EXECUTE format($sql$
        INSERT INTO %1$I.words (word)
        SELECT DISTINCT term FROM changed, unnest(tsvector_to_array(changed.tsv)) AS term
        WHERE term ~ '^[a-z]{4,32}$' AND NOT EXISTS (SELECT FROM %1$I.words k WHERE k.word = term)
    $sql$, TG_TABLE_SCHEMA);
    RETURN NULL;
END
$function$;

CREATE FUNCTION {schema}.remove_words() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM changed) THEN
        RETURN NULL;
    END IF;
    -- one at a time: two that erase the last two documents with a word would each see the other's
    PERFORM pg_advisory_xact_lock(hashtextextended(TG_TABLE_SCHEMA || ' words', 0));
    EXECUTE format($sql$
        DELETE FROM %1$I.words k
        USING (SELECT DISTINCT term FROM changed, unnest(tsvector_to_array(changed.tsv)) AS term) AS gone
        WHERE k.word = gone.term
          AND NOT EXISTS (SELECT FROM %1$I.memory_documents d WHERE d.tsv @@ k.word::text::tsquery)
          AND NOT EXISTS (SELECT FROM %1$I.knowledge_documents d WHERE d.tsv @@ k.word::text::tsquery)
    $sql$, TG_TABLE_SCHEMA);
    RETURN NULL;
END
$function$;

CREATE FUNCTION {schema}.replace_words() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    EXECUTE format($sql$
        INSERT INTO %1$I.words (word)
        SELECT DISTINCT term FROM unnest(tsvector_to_array($1)) AS term
        WHERE term ~ '^[a-z]{4,32}$' AND NOT EXISTS (SELECT FROM %1$I.words k WHERE k.word = term)
    $sql$, TG_TABLE_SCHEMA) USING NEW.tsv;
    PERFORM pg_advisory_xact_lock(hashtextextended(TG_TABLE_SCHEMA || ' words', 0));
    EXECUTE format($sql$
        DELETE FROM %1$I.words k USING unnest(tsvector_to_array($1)) AS term
        WHERE k.word = term
          AND NOT EXISTS (SELECT FROM %1$I.memory_documents d WHERE d.tsv @@ k.word::text::tsquery)
          AND NOT EXISTS (SELECT FROM %1$I.knowledge_documents d WHERE d.tsv @@ k.word::text::tsquery)
    $sql$, TG_TABLE_SCHEMA) USING OLD.tsv;
    RETURN NULL;
END
$function$;
