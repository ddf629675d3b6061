import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8')

test('the table at the top of the runbooks leads from each alert to the section that the alert names', () => {
  const alerts = [
    ...read('../deploy/prometheus/alerts.yaml').matchAll(/alert: (\w+)[\s\S]*?docs\/runbooks\.md#([\w-]+)/g),
  ]
  const rows = [...read('runbooks.md').matchAll(/^\| (`Sluice.*?) +\| \[[^\]]*\]\(#([\w-]+)\)/gm)]
  const listed = rows.flatMap(([, names = '', section = '']) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name = '']) => `${name} ${section}`),
  )
  expect(alerts.length).toBeGreaterThan(20)
  expect(listed.sort()).toEqual(alerts.map(([, name = '', section = '']) => `${name} ${section}`).sort())
})

test('the runbook of jobs that wait names kinds that the workers have, and those without the metric of jobs', () => {
  const worker = fileURLToPath(new URL('../services/worker/', import.meta.url))
  const sources = globSync('**/*.ts', { cwd: worker, exclude: ['**/node_modules', '**/*.test.ts'] })
    .map((file) => read(`../services/worker/${file}`))
    .join('\n')
  // runLeases registers both metrics of its kind.
  const withJobs = [...sources.matchAll(/runLeases\(\{\s*kind: '([^']+)'/g)].map(([, kind = '']) => kind)
  const withAge = [...sources.matchAll(/addOldestDue\('([^']+)'/g)].map(([, kind = '']) => kind)
  expect(withJobs.length).toBeGreaterThan(5)
  expect(withAge.length).toBeGreaterThan(0)

  const section = /^## Jobs wait$([\s\S]*?)^## /m.exec(read('runbooks.md'))?.[1] ?? ''
  const named = /names the kind of job, such as([\s\S]*?)\.\n/.exec(section)?.[1] ?? ''
  for (const [, kind = ''] of named.matchAll(/`([^`]+)`/g)) expect([...withJobs, ...withAge]).toContain(kind)
  const without = [...section.matchAll(/`sluice_worker_jobs` has no kind `([^`]+)`/g)].map(([, kind]) => kind)
  expect(without).toEqual(withAge)
  const row = /^\| `sluice_worker_jobs\{kind,state\}`.*$/m.exec(read('operations.md'))?.[0]
  for (const kind of withAge) expect(row).toContain(`no kind \`${kind}\``)
})
