-- Oldest build: 1
-- One table of truth. Rows reach it only through event-inserter.ts, which keeps every (site_id, environment, event_id, timestamp) once;
-- ReplacingMergeTree is the safety net behind that. Reasons and figures: docs/decisions/002-exactly-once.md.
CREATE TABLE IF NOT EXISTS events
(
    site_id        String,
    environment    Enum8('prod' = 1, 'dev' = 2),
    event_type     LowCardinality(String),
    timestamp      DateTime64(3, 'UTC'),
    event_id       String,
    -- 1: the client sent event_id but no timestamp; copies within 15 minutes are one event.
    undated        UInt8,
    session_id     String,
    user_id        String,
    anonymous_id   String,
    url            String,
    referrer       String,
    country        LowCardinality(String),
    device_type    LowCardinality(String),
    -- Flattened, every value as text; property_types holds those that were not strings.
    properties     Map(LowCardinality(String), String),
    property_types Map(LowCardinality(String), Enum8('number' = 1, 'boolean' = 2, 'array' = 3)),
    received_at    DateTime64(3, 'UTC'),
    -- 64-bit keys for distinct counts and look-ups. They never leave ClickHouse: JavaScript would round them.
    event_key      UInt64 MATERIALIZED cityHash64(event_id),
    session_key    UInt64 MATERIALIZED if(session_id = '', 0, cityHash64(session_id)),
    user_key       UInt64 MATERIALIZED if(user_id = '', 0, cityHash64(user_id)),
    -- The kind is hashed too: a user, an anonymous id and a session of one name are three visitors.
    visitor_key    UInt64 MATERIALIZED multiIf(
        user_id != '', cityHash64('user', user_id),
        anonymous_id != '', cityHash64('anonymous', anonymous_id),
        session_id != '', cityHash64('session', session_id),
        0)
)
ENGINE = ReplacingMergeTree
PARTITION BY if(timestamp < toDateTime64('2020-01-01 00:00:00', 3, 'UTC'), toYear(timestamp), toYYYYMM(timestamp))
PRIMARY KEY (site_id, timestamp)
ORDER BY (site_id, timestamp, event_id, environment)
-- Without the two fsyncs, the writer could commit an offset of the log before its rows are on disk.
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
