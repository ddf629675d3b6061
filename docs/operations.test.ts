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

test('the table of a writer that waits names every failure of ClickHouse after which an insert is repeated', () => {
  const source = readFileSync(`${root}packages/event-store/clickhouse/errors.ts`, 'utf8')
  const codes = /retryableCodes = new Set<number>\(\[([\s\S]*?)\]\)/.exec(source)?.[1] ?? ''
  const names = [...codes.matchAll(/clickHouseCode\.(\w+)|\/\/ ([A-Z_\d]+)/g)].map(
    ([, property = '', name = property.replaceAll(/[A-Z]/g, '_$&').toUpperCase()]) => name,
  )
  expect(names.length).toBeGreaterThan(20)
  // Inserts with a quorum of replicas, and mutations, have these.
  const notOfInserts = ['TOO_FEW_LIVE_REPLICAS', 'UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE', 'TOO_MANY_MUTATIONS']
  const page = readFileSync(`${root}docs/operations.md`, 'utf8')
  const section = page.split('\n## A writer that waits\n')[1]?.split('\n## ')[0] ?? ''
  const named = new Set([...section.matchAll(/`([A-Z]\w*)`/g)].map(([, name]) => name))
  expect(names.filter((name) => !named.has(name))).toEqual(notOfInserts)
})
