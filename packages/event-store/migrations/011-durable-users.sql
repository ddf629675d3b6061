-- Oldest build: 1
-- An import of users is completed, and its file removed, once its rows are inserted: a power failure must not take them away.
ALTER TABLE users MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;
