import { readFileSync } from 'node:fs'
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
