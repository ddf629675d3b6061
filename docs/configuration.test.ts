import { readFile } from 'node:fs/promises'
import { expect, it } from '@jest/globals'
import { misspeltNames } from '@sluice/runtime/misspelt-variables'
import { configurationPage, processes } from './configuration.ts'

it('configuration.md is what npm run docs writes', async () => {
  expect(await readFile(new URL('configuration.md', import.meta.url), 'utf8')).toBe(configurationPage())
})

it('no variable of a process is a misspelt variable of another one', () => {
  const names = processes.flatMap(({ variables }) => Object.keys(variables))
  const environment = Object.fromEntries(names.flatMap((name) => [name, `${name}_FILE`]).map((name) => [name, 'x']))
  for (const { variables } of processes) {
    // Beside the other variables, each of its own ones may be unset.
    for (const unset of Object.keys(variables)) {
      expect(
        misspeltNames(variables, { ...environment, [unset]: undefined, [`${unset}_FILE`]: undefined }),
      ).toStrictEqual([])
    }
  }
})
