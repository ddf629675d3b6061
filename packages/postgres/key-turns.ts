import { type RawBuilder, sql } from 'kysely'

interface Candidates {
  table: 'imports' | 'exports'
  /** The column of the job's id. */
  id: 'import_id' | 'export_id'
  /** The condition of a partial index of `site_id` and `seq`. */
  candidates: RawBuilder<unknown>
  /** A further condition: jobs that do not meet it let later ones of their site pass. */
  condition: RawBuilder<unknown>
}

/**
 * SQL of a query with the columns `id` and `turn` of the jobs that are to be taken first at `at`, out of the first
 * candidate of each site. A key's second job, counting those that run, comes after the first one of every other key.
 * Among the keys that have as many, the order is random at each take: so a key with jobs on very many sites gets no
 * more turns than a key with one job, although a job that ends leaves no trace of its key's turns.
 */
export function keyTurns({ table, id, candidates, condition }: Candidates, at: Date): RawBuilder<unknown> {
  const source = sql.table(table)
  const isRunning = sql`coalesce(lease_until > ${at}, false)`
  // One step in the index finds each site, however many jobs it has (erasure-turns.ts).
  return sql`
    WITH RECURSIVE site AS (
      (SELECT site_id FROM ${source} WHERE ${candidates} ORDER BY site_id LIMIT 1)
      UNION ALL
      SELECT next.site_id FROM site CROSS JOIN LATERAL (
        SELECT site_id FROM ${source} WHERE ${candidates} AND site_id > site.site_id ORDER BY site_id LIMIT 1
      ) AS next
    ), placed AS (
      SELECT
        first.*,
        count(*) FILTER (WHERE is_running) OVER (PARTITION BY key_id)
          + row_number() OVER (PARTITION BY key_id, is_running ORDER BY due_at) AS place
      FROM site CROSS JOIN LATERAL (
        SELECT ${sql.ref(id)} AS id, key_id, due_at, ${isRunning} AS is_running FROM ${source}
        WHERE ${candidates} AND ${condition} AND site_id >= site.site_id AND site_id <= site.site_id
        ORDER BY site_id, seq LIMIT 1
      ) AS first
      WHERE due_at <= ${at}
    )
    SELECT id, row_number() OVER (ORDER BY place, md5(key_id || ${at.toISOString()}::text), due_at) AS turn
    FROM placed WHERE NOT is_running ORDER BY turn LIMIT 100`
}
