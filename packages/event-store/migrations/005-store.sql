-- Oldest build: 1
-- The identity of this store. The name of its consumer group contains `id`. Writers insert on `server` only, because the
-- lock and the look-back of an insert exist on one server. After a move, "npm run migrate" records the new server. Reasons:
-- docs/decisions/019-one-store-one-server.md.
CREATE TABLE IF NOT EXISTS store
(
    id       UUID,
    server   UUID,
    noted_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(noted_at)
ORDER BY id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
INSERT INTO store (id, server) SELECT generateUUIDv4(), serverUUID() WHERE (SELECT count() FROM store) = 0;
