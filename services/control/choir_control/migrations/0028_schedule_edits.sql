-- The author of a schedule's present text: `created_by`, or the one who changed it last.
ALTER TABLE {schema}.schedules ADD COLUMN text_by text NOT NULL DEFAULT '';
UPDATE {schema}.schedules SET text_by = created_by;
