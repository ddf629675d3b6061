import { generateKey } from '@sluice/contracts/api-key'
import { waitUntil } from '@sluice/engines/processes'
import { setTimeout as lasting } from 'node:timers/promises'
import { askTimeoutMs, createSpareKey, keysPath, revokeKey, statusOf } from './administration.ts'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { underLoad } from './under-load.ts'

export interface PostgresAwayOptions {
  seed: number
  /** Half of it Postgres refuses connections, half of it it is silent. */
  outageSeconds: number
  /** A revoked key must be refused by every process within this time. */
  revokedMsMax: number
  say: Say
}

const eventsPerSecond = 500
/** Before the outage, and for the revocation after it. */
const spareSeconds = 12
const backTimeoutMs = 30_000

/**
 * R6: with Postgres away, keys that are known go on ingesting and administration answers 503. With it back, a revoked key
 * is refused everywhere soon.
 */
export async function postgresAway(
  rig: Rig,
  { seed, outageSeconds, revokedMsMax, say }: PostgresAwayOptions,
): Promise<Outcome> {
  const admin: Record<string, number> = {}
  const unknownKey: Record<string, number> = {}
  let adminMsMax = 0
  let revokedMs = 0
  let ingestedInOutage = 0

  /** Asks what only Postgres knows, over and over, for the time of half an outage. */
  async function stayAway(): Promise<void> {
    const end = Date.now() + (outageSeconds / 2) * 1000
    while (Date.now() < end) {
      const askedAt = Date.now()
      count(admin, await statusOf(`${rig.query.url}${keysPath}`, rig.key))
      adminMsMax = Math.max(adminMsMax, Date.now() - askedAt)
      count(unknownKey, await statusOf(`${rig.gateways[0].url}/collect`, generateKey('prod'), oneEvent))
      await lasting(200)
    }
  }

  async function outage(): Promise<void> {
    const spare = await createSpareKey(rig)
    const everywhere = [
      () => statusOf(`${rig.gateways[0].url}/collect`, spare.key, oneEvent),
      () => statusOf(`${rig.gateways[1].url}/collect`, spare.key, oneEvent),
      () => statusOf(`${rig.query.url}/api/v1/stats?site_id=x&metric=event_count`, spare.key),
    ]
    // Each process has the key in its cache now.
    await Promise.all(everywhere.map((ask) => ask()))

    await rig.lines.postgres.refuse()
    await stayAway()
    await rig.lines.postgres.accept()
    rig.lines.postgres.stall('everything')
    await stayAway()
    const whileAway = await Promise.all(everywhere.slice(0, 2).map((ask) => ask()))
    ingestedInOutage = whileAway.filter((status) => status === 202).length
    rig.lines.postgres.resume()
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

  const { figures, problems, details, ledger } = await underLoad(rig, {
    load: {
      seed,
      events: eventsPerSecond * (outageSeconds + spareSeconds),
      eventsPerSecond,
      requestTimeoutMs: askTimeoutMs,
    },
    faults: [{ name: 'Postgres away', at: 5 / (outageSeconds + spareSeconds), run: outage }],
    say,
  })
  const { statuses, unanswered } = ledger.figures
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
      ...(Object.keys(statuses).join() === '202' && unanswered === 0 ? [] : ['an event of a known key was not taken']),
      ...(ingestedInOutage === 2 ? [] : ['a key that is cached was not taken while Postgres was away']),
      ...(Object.keys(admin).join() === '503' ? [] : ['administration answered something else than 503']),
      ...(Object.keys(unknownKey).join() === '503' ? [] : ['an unknown key was answered something else than 503']),
      ...(revokedMs > revokedMsMax ? [`a revoked key was taken for ${revokedMs} ms, not ${revokedMsMax}`] : []),
    ],
    details,
  }
}

const oneEvent = JSON.stringify({ site_id: 'revocation', event_type: 'x' })

function count(counts: Record<string, number>, status: number): void {
  counts[status] = (counts[status] ?? 0) + 1
}
