-- The language in which Choir itself talks to a person (docs/how-to/translate.md).
CREATE TABLE {schema}.user_languages (
    owner  text PRIMARY KEY,           -- `person NAME`, or `dm NAME` of a conversation that is nobody's
    app    text NOT NULL DEFAULT '',   -- what the user's app has said last, as a tag such as `de-AT`
    chosen text NOT NULL DEFAULT ''    -- by the command /language; empty: none
);
