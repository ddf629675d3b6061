-- Oldest build: 1
-- Merging the many small parts of each second's inserts costs more than the inserts (docs/benchmarks.md). This setting makes
-- merges fewer and wider.
ALTER TABLE events MODIFY SETTING merge_selector_base = 10;
