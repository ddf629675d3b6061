import { readFile } from 'node:fs/promises'
import { expect, test } from '@jest/globals'
import { dashboardOperations } from './dashboard-operations.ts'

test('operations.gen.ts of the dashboard is what npm run docs writes', async () => {
  const file = new URL('../packages/dashboard/src/api/operations.gen.ts', import.meta.url)
  expect(await readFile(file, 'utf8')).toBe(dashboardOperations())
})
