// npm run chaos:browser-sdk [-- --seed N --rounds N --browser chromium|firefox|webkit]: the ledger of ledger.ts over
// random faults and networks.
import { parseArgs } from 'node:util'
import { drawBelow, seededRandom } from '../chaos/random.ts'
import { findChromium } from '../dashboard/support/chromium.ts'
import { startRig } from '../dashboard/support/rig.ts'
import { type Fault, faults, keepLedger, type Round } from './ledger.ts'
import type { Profile } from './support/browser.ts'
import { createChromiumProfile } from './support/chromium.ts'
import { createFirefoxProfile, findFirefox } from './support/firefox.ts'
import { createWebKitProfile, findWebKit } from './support/webkit.ts'

interface Browser {
  name: string
  /** The program; undefined where there is none. */
  file: string | undefined
  /** Debian's packages with what it needs. */
  packages: string
  createProfile: () => Promise<Profile>
  /** Faults that this browser cannot be given. */
  leftOut: readonly Fault[]
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '100' },
    browser: { type: 'string', default: 'chromium' },
  },
})
const [seed, count] = [Number(values.seed), Number(values.rounds)]
const browsers: Readonly<Record<string, Browser>> = {
  chromium: {
    name: 'Chromium',
    file: findChromium(),
    packages: 'chromium',
    createProfile: createChromiumProfile,
    leftOut: [],
  },
  // WebKitGTK keeps nothing when it is driven, and its driver ends when a page crashes.
  webkit: {
    name: 'WebKit',
    file: findWebKit(),
    packages: 'webkit2gtk-driver xvfb xauth',
    createProfile: createWebKitProfile,
    leftOut: ['full-storage', 'kill-browser', 'kill-pages'],
  },
  // Firefox has no command that limits the storage of a page.
  firefox: {
    name: 'Firefox',
    file: findFirefox(),
    packages: 'firefox-esr',
    createProfile: createFirefoxProfile,
    leftOut: ['full-storage'],
  },
}
const browser = browsers[values.browser]
if (!browser) throw new Error(`--browser is one of ${Object.keys(browsers).join(', ')}`)
const { name, file, packages, createProfile, leftOut } = browser
if (file === undefined) {
  throw new Error(
    `There is no ${name}: set SLUICE_TEST_${name.toUpperCase()} to the program, or on Debian "apt-get install ${packages}"`,
  )
}
if (!(seed > 0 && count > 0)) throw new Error('--seed and --rounds are numbers from 1 on')

const given = faults.filter((fault) => !leftOut.includes(fault))
if (leftOut.length > 0) console.error(`${name} cannot be given: ${leftOut.join(', ')}`)
const random = seededRandom(seed, 1)
const networks = ['bad', 'bad', 'bad', 'forward', 'cut-before', 'cut-after', 'delay', 'answer'] as const
const rounds = Array.from({ length: count }, (): Round => ({
  fault: given[drawBelow(random, given.length)] ?? 'nothing',
  network: networks[drawBelow(random, networks.length)] ?? 'bad',
}))
const rig = await startRig()
try {
  const { examples, ...balance } = await keepLedger(rig, {
    rounds,
    seed,
    createProfile,
    say: (line) => console.error(line),
  })
  const passed = balance.lost + balance.twice + balance.altered === 0
  console.log(JSON.stringify({ passed, browser: values.browser, seed, rounds: count, ...balance }))
  for (const example of examples) console.error(JSON.stringify(example, undefined, 2))
  if (!passed) process.exitCode = 1
} finally {
  await rig.stop()
}
