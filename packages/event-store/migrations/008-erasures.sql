-- Oldest build: 1
-- Tombstones: what was erased of a site. Every insert compares its rows with them (tombstones.ts), so that a copy that is
-- still on its way is not stored after the erasure. Values stand here as hashes. Reasons and figures:
-- docs/decisions/026-erasures.md.
CREATE TABLE IF NOT EXISTS erasures
(
    erasure_id   String,
    site_id      String,
    -- sipHash128 of the kind, the site and the value.
    key          FixedString(16),
    -- Unix ms. Rows that were received until then are erased, if their time is earlier than `before`.
    requested_at Int64,
    before       Int64,
    -- Unix ms. Inserts read the tombstones that apply to rows received until then: a second row of each erasure that is
    -- under way applies to all, so that stored rows that are still to be deleted hide no new ones.
    applies_until Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (applies_until, site_id, key, requested_at, before, erasure_id)
-- Longer than both logs and the dead letters keep copies.
TTL toDateTime(intDiv(requested_at, 1000), 'UTC') + INTERVAL 400 DAY
-- A tombstone that a power failure takes away would let copies back in.
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
-- By default deletions wait until 20 of the pool's entries are free: with the small pool of a small machine that is until no
-- merge runs at all, which under load is never.
ALTER TABLE events MODIFY SETTING number_of_free_entries_in_pool_to_execute_mutation = 1;
ALTER TABLE users MODIFY SETTING number_of_free_entries_in_pool_to_execute_mutation = 1;
