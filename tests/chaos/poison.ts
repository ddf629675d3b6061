import { type Block, blockVersion, type DeadLetter } from '@sluice/event-log/block'
import { deadLetterUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import { doFault } from './faults.ts'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'
import { underLoad } from './under-load.ts'

export interface PoisonOptions {
  seed: number
  events: number
  say: Say
}

const eventsPerSecond = 1_500
const publishTimeoutMs = 30_000
const lettersTimeoutMs = 120_000
const goodPerBlock = 5

/** A block that no gateway publishes; a faulty build or another program may write it into the topic. */
interface Poison {
  block: Block
  reason: DeadLetter['reason']
  /** Lines that must become dead letters, and ids of rows that must be stored. */
  bad: string[]
  good: string[]
}

/**
 * R3: rows that can't be stored occur among good ones while a writer is killed. Every good row must be stored, also the
 * neighbours of a bad row in its block; every bad row must become a dead letter with its reason, and no other row may.
 */
export async function poison(rig: Rig, { seed, events, say }: PoisonOptions): Promise<Outcome> {
  const poisons = [0, 1, 2, 3].flatMap((partition) => drawPoison(seed, partition))
  const publish = async (): Promise<void> => {
    const log = await openEventLog(rig.logUrl, { logger: silentLogger })
    try {
      const blocks = poisons.map(({ block }) => block)
      // On a busy machine a broker may answer too late, and the block is then published again. Its rows are
      // nevertheless stored once, or are one dead letter.
      const isPublished = () =>
        log.publish(blocks, { timeoutMs: publishTimeoutMs }).then(
          () => true,
          () => false,
        )
      await waitUntil(isPublished, 'the blocks are published')
    } finally {
      await log.close()
    }
  }
  const { figures, problems, details } = await underLoad(rig, {
    load: { seed, events, eventsPerSecond },
    faults: [
      { name: 'poison', at: 0.1, run: publish },
      { name: 'kill-writer', at: 0.4, run: () => doFault(rig, { kind: 'kill-writer', target: 0 }) },
      { name: 'poison again', at: 0.7, run: publish },
    ],
    say,
  })
  const expected = new Map(poisons.flatMap(({ bad, reason }) => bad.map((line) => [line, reason])))
  const letters = await readDeadLetters(rig, expected.size)
  const missing = [...expected].filter(([line, reason]) => letters.get(line) !== reason)
  const unexpected = [...letters].filter(([line]) => !expected.has(line))
  const notOnce = await notStoredOnce(
    rig,
    poisons.flatMap(({ good }) => good),
  )
  return {
    figures: { ...figures, poison_rows: expected.size, dead_lettered: letters.size, good_neighbours_not_once: notOnce },
    problems: [
      ...problems,
      ...(missing.length > 0 ? [`${missing.length} rows are no dead letters, or for another reason`] : []),
      ...(unexpected.length > 0 ? [`${unexpected.length} dead letters nobody expected`] : []),
      ...(notOnce > 0 ? [`${notOnce} good rows of poisoned blocks are not stored once`] : []),
    ],
    details: [...details, ...missing.slice(0, 5), ...unexpected.slice(0, 5)],
  }
}

function drawPoison(seed: number, partition: number): Poison[] {
  const mark = `poison${seed}-${partition}`
  const row = (id: string, changes: object = {}): string =>
    `${JSON.stringify({
      site_id: 'poison',
      environment: 'prod',
      event_type: 'x',
      timestamp: Date.UTC(2026, 0, 20),
      event_id: id,
      received_at: Date.UTC(2026, 0, 20),
      ...changes,
    })}\n`
  const goodIds = (kind: string): string[] => Array.from({ length: goodPerBlock }, (_, n) => `${mark}-${kind}-${n}`)
  const blockOf = (lines: readonly string[], headers: Partial<Block['headers']> = {}): Block => {
    const payload = Buffer.from(lines.join(''))
    return { partition, headers: { v: blockVersion, rows: lines.length, bytes: payload.length, ...headers }, payload }
  }
  /** Puts a bad line between good ones. */
  const among = (kind: string, bad: string): { block: Block; bad: string[]; good: string[] } => {
    const good = goodIds(kind)
    const lines = good.map((id) => row(id))
    return { block: blockOf([...lines.slice(0, 2), bad, ...lines.slice(2)]), bad: [bad], good }
  }
  const short = [row(`${mark}-short`)]
  const foreign = [`what is this, ${mark}?\n`]
  return [
    { ...among('time', row(`${mark}-bad-time`, { timestamp: 'yesterday' })), reason: 'refused' },
    { ...among('field', row(`${mark}-bad-field`, { of_a_later_build: 1 })), reason: 'refused' },
    { ...among('json', `{"site_id": "poison", "event_id": "${mark}\n`), reason: 'not_json' },
    { block: blockOf(short, { rows: 2 }), bad: short, good: [], reason: 'row_count' },
    { block: blockOf(foreign, { v: 0 as typeof blockVersion }), bad: foreign, good: [], reason: 'unreadable' },
  ]
}

/** Reads lines of dead letters with their reasons until there are `count` different ones or the time is over. */
async function readDeadLetters({ logUrl }: Rig, count: number): Promise<Map<string, string>> {
  const letters = new Map<string, string>()
  const log = await openEventLog(deadLetterUrl(logUrl), { logger: silentLogger })
  const consumer = log.consumer({
    group: `audit-${process.hrtime.bigint()}`,
    batchBytesMax: 2 ** 20,
    batchRowsMax: 1_000,
    lingerMs: 0,
    onClaim: async (claim) => {
      for await (const { blocks } of claim.batches()) {
        for (const { headers, payload } of blocks)
          for (const line of payload.toString().split(/(?<=\n)/)) letters.set(line, headers.letter?.reason ?? 'none')
      }
    },
  })
  const running = consumer.run()
  try {
    await Promise.race([
      waitUntil(() => letters.size >= count, 'dead letters', lettersTimeoutMs).catch(() => undefined),
      running,
    ])
  } finally {
    await consumer.stop()
    await log.close()
  }
  return letters
}

async function notStoredOnce({ clickHouse }: Rig, ids: readonly string[]): Promise<number> {
  const client = openClickHouse(clickHouse.url)
  try {
    const { rows } = await client.query<{ id: string; stored: number }>(
      `SELECT event_id AS id, count() AS stored FROM events WHERE site_id = 'poison' GROUP BY id`,
    )
    const stored = new Map(rows.map(({ id, stored }) => [id, stored]))
    return ids.filter((id) => stored.get(id) !== 1).length + rows.filter(({ id }) => !ids.includes(id)).length
  } finally {
    await client.close()
  }
}
