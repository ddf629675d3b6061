// npm run check:licences: checks that each installed package has a licence with which this project may ship the
// package, or use it for its checks.
import { execFileSync } from 'node:child_process'
import process from 'node:process'

/** Licences that allow everything, on condition that their text is included. */
const permissive = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT-0',
  'Zlib',
])
/** Other licences that were looked at, for one package each, with the reason. */
const exceptions = new Map([
  ['MPL-2.0', new Map([['axe-core', 'is used as it is, so that its own files alone are under the licence']])],
  ['WTFPL', new Map([['@cspell/dict-django', 'a word list of the spelling check, which is not shipped']])],
  ['CC BY-SA 4.0', new Map([['@cspell/dict-en-common-misspellings', 'the same']])],
  [
    'Unknown',
    new Map([
      ['@segment/isodate', 'its file LICENSE is the text of MIT; a part of a client that tests use'],
      ['@segment/isodate-traverse', 'the same'],
      ['new-date', 'the same'],
    ]),
  ],
  ['CC-BY-4.0', new Map([['caniuse-lite', 'data of the test tools, which is not shipped']])],
])

/** Whether an SPDX expression of licences between AND and OR can be kept with permissive ones. */
function isPermissive(expression) {
  const alternatives = expression.replaceAll(/[()]/g, '').split(' OR ')
  return alternatives.some((alternative) => alternative.split(' AND ').every((licence) => permissive.has(licence)))
}

function installed() {
  // Checks a list on standard input instead, e.g. that of an image.
  if (process.argv.includes('--stdin')) return execFileSync('cat', { stdio: ['inherit', 'pipe', 'inherit'] })
  const { npm_package_packageManager: manager = 'pnpm@12.21.0' } = process.env
  return execFileSync('npx', ['--yes', manager, '--recursive', 'licenses', 'list', '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 * 1024 * 1024,
  })
}

const byLicence = JSON.parse(installed().toString('utf8'))
const refused = Object.entries(byLicence)
  .filter(([licence]) => !isPermissive(licence))
  .flatMap(([licence, packages]) =>
    packages
      .filter(({ name }) => exceptions.get(licence)?.has(name) !== true)
      .map(({ name, versions }) => `${name} ${versions.join(', ')}: ${licence}`),
  )
if (refused.length > 0) {
  process.stderr.write(
    `These packages have licences that nobody has allowed:\n${refused.map((line) => `  ${line}`).join('\n')}\n` +
      'Take another package, or allow it in scripts/check-licences.mjs with the reason.\n',
  )
  process.exitCode = 1
} else {
  const count = Object.values(byLicence).flat().length
  process.stdout.write(`${count} packages, all with licences that are allowed\n`)
}
