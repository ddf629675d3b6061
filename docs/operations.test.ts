import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { metricPrefix } from '../services/writer/metrics.ts'

const root = fileURLToPath(new URL('../', import.meta.url))

/** Names of Sluice's own figures in a text; a histogram's parts count as the histogram. */
const figuresIn = (text: string) => new Set(text.match(/\bsluice_\w+/g))

test('operations.md lists every metric that a service registers, and no other', () => {
  const files = globSync('{services,packages}/**/*.ts', { cwd: root, exclude: ['**/node_modules/**'] })
  const registered = files
    .filter((file) => !file.endsWith('.test.ts'))
    .flatMap(
      (file) => readFileSync(`${root}${file}`, 'utf8').match(/name: ['`](sluice_|\$\{\w*[pP]refix[^}]*\}_)\w+/g) ?? [],
    )
    .flatMap((text) => Object.values(metricPrefix).map((prefix) => text.replace(/\$\{[^}]*\}/, prefix)))
    .flatMap((text) => [...figuresIn(text)])
  const listed = figuresIn(readFileSync(`${root}docs/operations.md`, 'utf8'))
  expect(registered.length).toBeGreaterThan(10)
  expect([...listed].sort()).toEqual([...new Set(registered)].sort())
})
