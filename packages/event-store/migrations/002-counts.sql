-- Oldest build: 1
-- Counts by quarter of an hour, because today the offset of every time zone from UTC is a multiple of it. A projection is
-- stored inside the part that holds its rows: both are stored together or not at all, and they never differ. Reasons and figures:
-- docs/decisions/011-counts-projection.md.
ALTER TABLE events MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild', lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE events ADD PROJECTION IF NOT EXISTS counts
(
    SELECT
        site_id,
        environment,
        toStartOfFifteenMinutes(timestamp),
        event_type,
        country,
        device_type,
        count(),
        min(timestamp),
        max(timestamp)
    GROUP BY site_id, environment, toStartOfFifteenMinutes(timestamp), event_type, country, device_type
);
-- Runs in the background. Until a part is done, statements read its rows without the projection.
ALTER TABLE events MATERIALIZE PROJECTION counts;
