-- Oldest build: 1
-- Tombstones record what was erased from a site. Every insert compares its rows with them (tombstones.ts), so that a copy
-- that is still in a log is not stored after the erasure. Values are stored as hashes. Reasons and figures:
-- docs/decisions/026-erasures.md.
CREATE TABLE IF NOT EXISTS erasures
(
    erasure_id   String,
    site_id      String,
    -- sipHash128 of the kind, the site and the value.
    key          FixedString(16),
    -- Unix ms. The erasure selects rows that were received at that time or earlier, if their timestamp is earlier than
    -- `before`.
    requested_at Int64,
    before       Int64,
    -- Unix ms. Inserts compare a row with the tombstones whose `applies_until` is not before the row's receipt. A running
    -- erasure has a second row, which applies to all inserts, so that stored rows that are still to be deleted hide no new
    -- ones.
    applies_until Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (applies_until, site_id, key, requested_at, before, erasure_id)
-- Longer than the retention of both logs and of the dead letters, which contain copies.
TTL toDateTime(intDiv(requested_at, 1000), 'UTC') + INTERVAL 400 DAY
-- If a power failure removed a tombstone, copies could be stored again.
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
-- By default, a deletion waits until 20 entries of the pool are free. On a small machine, whose pool is small, it would wait
-- until no merge runs. Under load that never happens.
ALTER TABLE events MODIFY SETTING number_of_free_entries_in_pool_to_execute_mutation = 1;
ALTER TABLE users MODIFY SETTING number_of_free_entries_in_pool_to_execute_mutation = 1;
