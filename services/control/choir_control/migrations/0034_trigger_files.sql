-- The files of watched folders as they were last seen; the path '' stands for the folder itself.
CREATE TABLE {schema}.trigger_files (
    name        text NOT NULL,                     -- of the trigger
    path        text NOT NULL,                     -- in the folder
    size        bigint NOT NULL,
    modified_ns bigint NOT NULL,
    digest      text NOT NULL,                     -- empty if the file was there before the trigger
    PRIMARY KEY (name, path)
);
