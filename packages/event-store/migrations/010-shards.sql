-- Oldest build: 1
-- The shard that a server of the store holds, and the number of shards. "npm run migrate" numbers the servers of a cluster.
-- The numbers can't be changed. Reasons: docs/decisions/042-shards.md.
ALTER TABLE store
    ADD COLUMN IF NOT EXISTS shard UInt16 DEFAULT 0 AFTER server,
    ADD COLUMN IF NOT EXISTS shards UInt16 DEFAULT 1 AFTER shard;
