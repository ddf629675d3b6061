import { readFile } from 'node:fs/promises'
import { expect, it } from '@jest/globals'
import { helmVariables } from './helm-variables.ts'

it('the variables of the Helm chart are what npm run docs writes', async () => {
  const file = new URL('../deploy/helm/sluice/files/variables.json', import.meta.url)
  expect(await readFile(file, 'utf8')).toBe(helmVariables())
})
