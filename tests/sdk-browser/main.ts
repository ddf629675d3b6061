// npm run chaos:browser-sdk [-- --seed N --rounds N]: the ledger of ledger.ts over random faults and networks.
import { parseArgs } from 'node:util'
import { drawBelow, seededRandom } from '../chaos/random.ts'
import { findChromium } from '../dashboard/support/chromium.ts'
import { startRig } from '../dashboard/support/rig.ts'
import { faults, keepLedger, type Round } from './ledger.ts'

const { values } = parseArgs({
  options: { seed: { type: 'string', default: '1' }, rounds: { type: 'string', default: '100' } },
})
const [seed, count] = [Number(values.seed), Number(values.rounds)]
if (findChromium() === undefined) throw new Error('There is no Chromium: install it, or set SLUICE_TEST_CHROMIUM')
if (!(seed > 0 && count > 0)) throw new Error('--seed and --rounds are numbers from 1 on')

const random = seededRandom(seed, 1)
const networks = ['bad', 'bad', 'bad', 'forward', 'cut-before', 'cut-after', 'delay', 'answer'] as const
const rounds = Array.from({ length: count }, (): Round => ({
  fault: faults[drawBelow(random, faults.length)] ?? 'nothing',
  network: networks[drawBelow(random, networks.length)] ?? 'bad',
}))
const rig = await startRig()
try {
  const { examples, ...balance } = await keepLedger(rig, {
    rounds,
    seed,
    say: (line) => {
      console.error(line)
    },
  })
  const passed = balance.lost + balance.twice + balance.altered === 0
  console.log(JSON.stringify({ passed, seed, rounds: count, ...balance }))
  for (const example of examples) console.error(JSON.stringify(example, undefined, 2))
  if (!passed) process.exitCode = 1
} finally {
  await rig.stop()
}
