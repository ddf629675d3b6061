-- Oldest build: 1
-- Which shard of how many a server of the store is: "npm run migrate" gives the servers of a cluster their numbers, which can't
-- be changed. Reasons: docs/decisions/042-shards.md.
ALTER TABLE store
    ADD COLUMN IF NOT EXISTS shard UInt16 DEFAULT 0 AFTER server,
    ADD COLUMN IF NOT EXISTS shards UInt16 DEFAULT 1 AFTER shard;
