import { setTimeout as sleep } from 'node:timers/promises'
import { generateKey } from '@sluice/access/api-key'
import { waitUntil } from '@sluice/runtime/wait-until'
import { askTimeoutMs, createSpareKey, keysPath, revokeKey, statusOf } from './administration.ts'
import type { Rig } from './rig.ts'
import { countBusyRefusals, countErrors } from './rig-parts.ts'
import type { Outcome, Say } from './scenario.ts'
import { underLoad } from './under-load.ts'

export interface PostgresAwayOptions {
  seed: number
  /** Duration of the outage: in the first half connections to Postgres are refused, in the second half they hang. */
  outageSeconds: number
  /** A revoked key must be refused by every process within this time. */
  revokedMsMax: number
  /** Seconds for which events are sent before the outage and during the revocation after it; 12 by default. */
  spareSeconds?: number
  say: Say
}

const eventsPerSecond = 500
const backTimeoutMs = 120_000

/**
 * R6: while Postgres is unavailable, cached keys still ingest events and administration answers 503. When Postgres is
 * back, every process soon refuses a revoked key.
 */
export async function postgresAway(
  rig: Rig,
  { seed, outageSeconds, revokedMsMax, spareSeconds = 12, say }: PostgresAwayOptions,
): Promise<Outcome> {
  const admin: Record<string, number> = {}
  const unknownKey: Record<string, number> = {}
  let adminMsMax = 0
  let revokedMs = 0
  let ingestedInOutage = 0

  /** Repeats requests that need Postgres for half of the outage. */
  async function stayAway(): Promise<void> {
    const end = Date.now() + (outageSeconds / 2) * 1000
    while (Date.now() < end) {
      const askedAt = Date.now()
      count(admin, await statusOf(`${rig.query.url}${keysPath}`, rig.key))
      adminMsMax = Math.max(adminMsMax, Date.now() - askedAt)
      count(unknownKey, await statusOf(`${rig.gateways[0].url}/collect`, generateKey('prod'), oneEvent))
      await sleep(200)
    }
  }

  async function outage(): Promise<void> {
    const spare = await createSpareKey(rig)
    const everywhere = [
      () => statusOf(`${rig.gateways[0].url}/collect`, spare.key, oneEvent),
      () => statusOf(`${rig.gateways[1].url}/collect`, spare.key, oneEvent),
      () => statusOf(`${rig.query.url}/api/v1/stats?site_id=x&metric=event_count`, spare.key),
    ]
    // From now on each process has cached the key.
    await Promise.all(everywhere.map((ask) => ask()))

    await rig.proxies.postgres.cut()
    await stayAway()
    await rig.proxies.postgres.mend()
    rig.proxies.postgres.freeze()
    await stayAway()
    const whileAway = await Promise.all(everywhere.slice(0, 2).map((ask) => ask()))
    ingestedInOutage = whileAway.filter((status) => status === 202).length
    await rig.proxies.postgres.mend()
    const isBack = async (): Promise<boolean> => (await statusOf(`${rig.query.url}${keysPath}`, rig.key)) === 200
    await waitUntil(isBack, 'administration works again', backTimeoutMs)

    await revokeKey(rig, spare.id)
    const revokedAt = Date.now()
    const refused = everywhere.map(async (ask) => {
      await waitUntil(async () => (await ask()) === 401, 'the revoked key is refused', backTimeoutMs)
      return Date.now() - revokedAt
    })
    revokedMs = Math.max(...(await Promise.all(refused)))
  }

  const busyBefore = countBusyRefusals(rig.gateways)
  const { figures, problems, details, ledger } = await underLoad(rig, {
    load: {
      seed,
      events: eventsPerSecond * (outageSeconds + spareSeconds),
      eventsPerSecond,
      requestTimeoutMs: askTimeoutMs,
    },
    faults: [{ name: 'Postgres away', at: spareSeconds / 2 / (outageSeconds + spareSeconds), run: outage }],
    say,
  })
  const { statuses, unanswered } = ledger.figures
  // `underLoad` checks other statuses. Refusals because of a busy machine do not count as refusals because of Postgres.
  const refused = (statuses[503] ?? 0) - Math.max(0, countBusyRefusals(rig.gateways) - busyBefore)
  return {
    figures: {
      outage_seconds: outageSeconds,
      admin,
      admin_ms_max: adminMsMax,
      unknown_key: unknownKey,
      revoked_ms: revokedMs,
      ...figures,
    },
    problems: [
      ...problems,
      ...(refused <= 0 && unanswered === 0 ? [] : ['an event of a known key was not taken']),
      ...(ingestedInOutage === 2 ? [] : ['a key that is cached was not taken while Postgres was unavailable']),
      ...(Object.keys(admin).join() === '503' ? [] : ['administration answered something else than 503']),
      ...(Object.keys(unknownKey).join() === '503' ? [] : ['an unknown key was answered something else than 503']),
      ...(revokedMs > revokedMsMax ? [`a revoked key was taken for ${revokedMs} ms, not ${revokedMsMax}`] : []),
    ],
    details: [...details, Object.fromEntries(countErrors(rig.gateways))],
  }
}

const oneEvent = JSON.stringify({ site_id: 'revocation', event_type: 'x' })

function count(counts: Record<string, number>, status: number): void {
  counts[status] = (counts[status] ?? 0) + 1
}
