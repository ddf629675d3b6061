-- Oldest build: 1
-- Counts by quarter of an hour: every time zone is a multiple of it from UTC. A projection lives in the same part as its
-- rows, so it is stored with them or not at all, and never differs from them. Reasons and figures:
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
-- In the background; until a part is done it is read as before.
ALTER TABLE events MATERIALIZE PROJECTION counts;
