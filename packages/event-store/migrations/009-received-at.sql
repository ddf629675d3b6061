-- Oldest build: 1
-- Runs of scheduled exports read the events that were received since the previous run. Most of a site's events are received
-- about when they happen, so a granule of 8,192 rows covers a short range of receipt times, and most granules need not be
-- read.
ALTER TABLE events ADD INDEX IF NOT EXISTS received_at received_at TYPE minmax GRANULARITY 1;
-- Runs in the background. ClickHouse reads parts without the index completely.
ALTER TABLE events MATERIALIZE INDEX received_at;
