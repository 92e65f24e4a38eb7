-- Schedules that start core jobs, and core jobs that run a skill.
ALTER TABLE {schema}.schedules DROP CONSTRAINT schedules_kind_check;
ALTER TABLE {schema}.schedules ADD CONSTRAINT schedules_kind_check
    CHECK (kind IN ('remind', 'prompt', 'job', 'skill'));
ALTER TABLE {schema}.schedules ADD COLUMN skill text NOT NULL DEFAULT '';
