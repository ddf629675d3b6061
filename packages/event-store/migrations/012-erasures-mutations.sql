-- Oldest build: 1
-- As for events and users (008-erasures.sql): a retired tombstone must not wait until no merge runs at all.
ALTER TABLE erasures MODIFY SETTING number_of_free_entries_in_pool_to_execute_mutation = 1;
