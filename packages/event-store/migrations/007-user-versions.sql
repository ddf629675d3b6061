-- Oldest build: 1
-- If a user has several rows, the one with the highest version counts: that of the import that was created last, and within
-- it the last record, independent of the order of inserts (insert/insert-users.ts). The engine of a table can't be changed,
-- so one repeatable statement replaces the table. Existing rows get a version below that of every import, and one row of
-- each user is kept.
CREATE OR REPLACE TABLE users
(
    site_id     String,
    environment Enum8('prod' = 1, 'dev' = 2),
    user_id     String,
    email       String,
    name        String,
    company     String,
    plan        String,
    imported_at DateTime64(3, 'UTC') DEFAULT now64(3),
    version     UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (site_id, environment, user_id)
AS SELECT site_id, environment, user_id, email, name, company, plan, imported_at, 0 AS version FROM users FINAL;
