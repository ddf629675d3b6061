import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { type Rig, startRig } from '../dashboard/support/rig.ts'
import { describeWithChromium } from '../dashboard/support/use-browser.ts'
import { type Balance, faults, keepLedger, type LedgerOptions, type Round } from './ledger.ts'
import { sdkMutations } from './mutations.ts'

const soundRounds: readonly Round[] = [
  // The next tabs all find events whose time is refused.
  { fault: 'clock-ahead', network: 'cut-before' },
  { fault: 'five-tabs', network: 'together' },
  ...faults.map((fault): Round => ({ fault, network: 'bad' })),
]

describeWithChromium('what a page has stored on the device', () => {
  let rig: Rig
  let sound: Promise<Balance>
  let mutated: Promise<Balance>[]

  beforeAll(async () => {
    rig = await startRig()
    // Two browsers at a time: each waits for the network half of the time.
    const limited = concurrencyLimit(2)
    const start = (options: LedgerOptions): Promise<Balance> => {
      const balance = limited(() => keepLedger(rig, options))
      // A failure fails the test that asks for the balance.
      balance.catch(() => undefined)
      return balance
    }
    sound = start({ rounds: soundRounds, seed: 1, say: console.info })
    mutated = sdkMutations.map(({ rounds, edits }) => start({ rounds, edits, seed: 2 }))
  })
  afterAll(() => rig.stop())

  it('is in Sluice once and unchanged, whatever happens to browser, network, clock and storage', async () => {
    const { reported, sent, ...balance } = await sound
    console.info({ reported, sent, ...balance })
    expect(balance).toMatchObject({ lost: 0, twice: 0, altered: 0, examples: [] })
    // What failed went out more than once.
    expect(reported).toBeGreaterThan(100)
    expect(sent).toBeGreaterThan(balance.stored)
  })

  it.each(sdkMutations.map((mutation, place) => ({ ...mutation, place })))(
    'is not when $name',
    async ({ shows, place }) => expect((await mutated[place])?.[shows]).toBeGreaterThan(0),
  )
})
