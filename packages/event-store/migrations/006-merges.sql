-- Oldest build: 1
-- Merges of the many small parts of a second's inserts cost more than the inserts (docs/benchmarks.md): fewer, wider ones.
ALTER TABLE events MODIFY SETTING merge_selector_base = 10;
