-- Oldest build: 1
-- Of a user's rows the one of the highest version counts: the import that was created last, and in it the last record, in
-- whatever order they are stored (insert/insert-users.ts). The engine of a table can't be changed, so the table is replaced
-- in one step, which may be repeated. Rows from before versions are older than every import; of each user one is left.
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
