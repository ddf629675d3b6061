import { type RawBuilder, sql } from 'kysely'

/**
 * A site has at most this many erasures that run at a time. A take looks at no more of a site's due ones, so that it
 * stays fast when a site has very many.
 */
const dueOfSiteMax = 16

/**
 * SQL of a query with the columns `id` and `turn` of the erasures that are to be taken first at `at`. Sites have their
 * turns: a site's second erasure, counting those that run, comes after the first one of every other site.
 */
export function takeTurns(at: Date): RawBuilder<unknown> {
  return sql`
    SELECT erasure_id AS id, row_number() OVER (ORDER BY place, waiting, due_at) AS turn
    FROM (
      SELECT *, count(*) OVER (PARTITION BY site_id) AS waiting
      FROM (${firstOfEachSite({
        candidates: sql`due_at IS NOT NULL`,
        condition: sql`due_at <= ${at}`,
        time: sql`due_at`,
        max: dueOfSiteMax,
      })}) AS due
    ) AS due
    WHERE lease_until IS NULL OR lease_until <= ${at}
    ORDER BY turn LIMIT 100`
}

/**
 * SQL of a query with the columns `id` and `turn` of the first `max` erasures that are at the step `delete`: the oldest
 * one of each site before the second one of any.
 */
export function deletionTurns(max: number): RawBuilder<unknown> {
  const candidates = sql`step = 'delete' AND status <> 'completed'`
  return sql`
    SELECT erasure_id AS id, row_number() OVER (ORDER BY place, requested_at) AS turn
    FROM (${firstOfEachSite({ candidates, condition: sql`true`, time: sql`requested_at`, max })}) AS deletable
    ORDER BY turn LIMIT ${max}`
}

interface Choice {
  /** The condition of a partial index of `site_id` and `time`. */
  candidates: RawBuilder<unknown>
  /** A condition on `time`. */
  condition: RawBuilder<unknown>
  time: RawBuilder<unknown>
  max: number
}

/** SQL of the rows of each site's first `max` erasures by `time`, with their `place` among those of the site. */
function firstOfEachSite({ candidates, condition, time, max }: Choice): RawBuilder<unknown> {
  // One step in the index finds each site, however many erasures it has. The two comparisons with the site, in place of
  // `=`, and the order keep the planner from indexes of the time alone, and from sorting all erasures of the site.
  return sql`
    WITH RECURSIVE site AS (
      (SELECT site_id FROM erasures WHERE ${candidates} ORDER BY site_id LIMIT 1)
      UNION ALL
      SELECT next.site_id FROM site CROSS JOIN LATERAL (
        SELECT site_id FROM erasures WHERE ${candidates} AND site_id > site.site_id ORDER BY site_id LIMIT 1
      ) AS next
    )
    SELECT first.* FROM site CROSS JOIN LATERAL (
      SELECT erasure_id, site_id, requested_at, due_at, lease_until,
        row_number() OVER (ORDER BY site_id, ${time}) AS place
      FROM erasures
      WHERE ${candidates} AND ${condition} AND site_id >= site.site_id AND site_id <= site.site_id
      ORDER BY site_id, ${time} LIMIT ${max}
    ) AS first`
}
