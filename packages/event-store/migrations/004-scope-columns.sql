-- Oldest build: 1
-- The columns that reads compare for every row, in a second form that is cheap to compare: comparing site_id and timestamp
-- took three times as long as counting distinct keys. Reasons and figures: docs/decisions/014-scope-columns.md.
ALTER TABLE events
    ADD COLUMN IF NOT EXISTS site LowCardinality(String) MATERIALIZED site_id,
    -- Today, the offset of every time zone from UTC is a multiple of a quarter of an hour.
    ADD COLUMN IF NOT EXISTS quarter DateTime('UTC') MATERIALIZED toStartOfFifteenMinutes(timestamp);
-- Runs in the background. Until a part is done, reads compute the columns.
ALTER TABLE events MATERIALIZE COLUMN site, MATERIALIZE COLUMN quarter;
