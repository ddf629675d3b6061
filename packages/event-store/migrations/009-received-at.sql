-- Oldest build: 1
-- Runs of scheduled exports read what was received since the run before: most of a site's events were received about when
-- they happened, so that a range of 8,192 of them has a short range of times of receipt, and most need not be read.
ALTER TABLE events ADD INDEX IF NOT EXISTS received_at received_at TYPE minmax GRANULARITY 1;
-- In the background; parts that have no index yet are read whole.
ALTER TABLE events MATERIALIZE INDEX received_at;
