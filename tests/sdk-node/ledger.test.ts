import { beforeAll, describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { useStoringGateway } from '../support/storing-gateway.ts'
import { type LedgerOptions, type LedgerTarget, runLedger } from './ledger.ts'
import { sdkMutations } from './mutations.ts'

/** Enough for each partition of the log to get some of them. */
const markers = 200

// The short run; `npm run chaos -- node-sdk` is the long one.
describe('the Node SDK with a spool, in processes that are killed', () => {
  const rig = useStoringGateway()
  let target: LedgerTarget

  beforeAll(() => {
    let drains = 0
    target = {
      gatewayUrl: rig.gateway.service.url,
      key: rig.gateway.keys.prod,
      clickHouse: rig.stores.clickHouse,
      // In each partition, events that were accepted earlier are before the markers.
      drain: async () => {
        const site = `markers-${drains++}`
        const event = { site_id: site, event_type: 'marker', timestamp: Date.now() }
        const events = Array.from({ length: markers }, (_, n) => ({ ...event, event_id: `${site}-${n}` }))
        expect((await rig.gateway.collectBatch({ events })).status).toBe(202)
        await waitUntil(async () => {
          const sql = 'SELECT count() AS found FROM events WHERE site_id = {site:String}'
          const { rows } = await rig.stores.clickHouse.query<{ found: number }>(sql, { site })
          return rows[0]?.found === markers
        }, 'the log is drained')
      },
    }
  })

  const say = (): void => undefined

  async function expectSound(options: Partial<LedgerOptions> & Pick<LedgerOptions, 'site' | 'kills'>): Promise<void> {
    const { problems, figures, details } = await runLedger(target, { seed: 20_261_123, say, ...options })
    if (problems.length > 0) console.error(JSON.stringify({ figures, details }, undefined, 2))
    expect(problems).toEqual([])
  }

  test('loses and alters no event that track has returned for, and has none stored twice', async () => {
    await expectSound({ site: 'ledger', kills: 6 })
  })

  test.each(['away', 'answers-cut'] as const)(
    'keeps the same promise when the line is %s until the last process',
    async (line) => {
      await expectSound({ site: line, kills: 1, line })
    },
  )

  test.each(sdkMutations)('is seen to fail when $name', async (mutation) => {
    const site = mutation.name.replaceAll(' ', '-')
    const { figures } = await runLedger(target, { seed: 1, site, kills: 1, line: mutation.line, mutation, say })
    expect(figures[mutation.shows]).toBeGreaterThan(0)
  })
})
