-- Oldest build: 1
-- Which store this is: the name of its consumer group holds `id`, and writers insert on `server` alone, because the lock and
-- the look-back of an insert are a server's own. "npm run migrate" notes another server after a move. Reasons:
-- docs/decisions/019-one-store-one-server.md.
CREATE TABLE IF NOT EXISTS store
(
    id       UUID,
    server   UUID,
    noted_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(noted_at)
ORDER BY id;
INSERT INTO store (id, server) SELECT generateUUIDv4(), serverUUID() WHERE (SELECT count() FROM store) = 0;
