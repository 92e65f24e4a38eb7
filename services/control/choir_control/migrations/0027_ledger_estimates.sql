-- `estimated`: the provider did not count the call's tokens, or Choir did not get its counts.
ALTER TABLE {schema}.ledger DROP CONSTRAINT ledger_source_check;
ALTER TABLE {schema}.ledger ADD CONSTRAINT ledger_source_check
    CHECK (source IN ('config', 'table', 'free', 'provider', 'unknown', 'estimated', 'reserved'));
