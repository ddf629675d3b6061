-- Oldest build: 1
-- What a read compares for every row, once more in forms that cost little: comparing site_id and timestamp themselves took
-- three times as long as counting distinct keys. Reasons and figures: docs/decisions/014-scope-columns.md.
ALTER TABLE events
    ADD COLUMN IF NOT EXISTS site LowCardinality(String) MATERIALIZED site_id,
    -- Every time zone is a multiple of it from UTC.
    ADD COLUMN IF NOT EXISTS quarter DateTime('UTC') MATERIALIZED toStartOfFifteenMinutes(timestamp);
-- In the background; until a part is done they are computed as it is read.
ALTER TABLE events MATERIALIZE COLUMN site, MATERIALIZE COLUMN quarter;
