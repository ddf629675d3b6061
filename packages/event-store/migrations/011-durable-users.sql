-- Oldest build: 1
-- An import of users is completed, and its file removed, when its rows are inserted. A power failure must not remove these
-- rows.
ALTER TABLE users MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;
