import { readFile } from 'node:fs/promises'
import { expect, test } from '@jest/globals'
import { withoutIndirect, withPackagesDrawing } from './packages.ts'

test('architecture.md has the drawing of the packages that npm run docs writes', async () => {
  const page = await readFile(new URL('architecture.md', import.meta.url), 'utf8')
  expect(page).toBe(withPackagesDrawing(page))
})

test('a page without the comments between which the drawing stands is an error', () => {
  expect(() => withPackagesDrawing('# Architecture')).toThrow('docs/architecture.md lacks the comments')
})

test('an import that follows from others is not drawn', () => {
  const imports = new Map([
    ['a', ['b', 'c', 'd']],
    ['b', ['c']],
    ['c', ['d']],
    ['d', []],
  ])
  expect([...withoutIndirect(imports)]).toStrictEqual([
    ['a', ['b']],
    ['b', ['c']],
    ['c', ['d']],
    ['d', []],
  ])
})
