-- Mail can start work, too.
ALTER TABLE {schema}.trigger_deliveries
    DROP CONSTRAINT trigger_deliveries_type_check,
    ADD CONSTRAINT trigger_deliveries_type_check CHECK (type IN ('hook', 'folder', 'mail'));
