-- Oldest build: 1
-- What imports say about users, besides their events. If a user has several rows, the one that was imported last counts.
CREATE TABLE IF NOT EXISTS users
(
    site_id     String,
    environment Enum8('prod' = 1, 'dev' = 2),
    user_id     String,
    email       String,
    name        String,
    company     String,
    plan        String,
    imported_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(imported_at)
ORDER BY (site_id, environment, user_id);
-- For each user the first event, and the weeks with events, as bits: of 64 weeks (from Monday, UTC), week n is bit n % 64.
-- There are two such numbers: one for events between Monday 0:00 and Sunday 10:00, one for events between Monday 12:00 and
-- the week's end. In no time zone does Monday begin between Monday 12:00 and Sunday 10:00 UTC. toUInt8, because a shift by a
-- signed number returns a signed one. Reasons and figures: docs/decisions/012-retention.md.
ALTER TABLE events ADD PROJECTION IF NOT EXISTS user_weeks
(
    SELECT
        site_id,
        environment,
        user_key,
        min(timestamp),
        groupBitOr(if((toUnixTimestamp64Milli(timestamp) + 259200000) % 604800000 < 554400000,
            bitShiftLeft(toUInt64(1), toUInt8(intDiv(toUnixTimestamp64Milli(timestamp) + 259200000, 604800000) % 64)), 0)),
        groupBitOr(if((toUnixTimestamp64Milli(timestamp) + 259200000) % 604800000 >= 43200000,
            bitShiftLeft(toUInt64(1), toUInt8(intDiv(toUnixTimestamp64Milli(timestamp) + 259200000, 604800000) % 64)), 0))
    GROUP BY site_id, environment, user_key
);
-- Runs in the background. Until a part is done, statements read its rows without the projection.
ALTER TABLE events MATERIALIZE PROJECTION user_weeks;
