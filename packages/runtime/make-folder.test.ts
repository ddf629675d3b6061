import { expect, test } from '@jest/globals'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeFolder } from './make-folder.ts'

test('makes what is missing for its user alone, and is fine with what is there', () => {
  const root = mkdtempSync(join(tmpdir(), 'sluice-folder-'))
  const folder = join(root, 'a', 'b')
  makeFolder(folder)
  makeFolder(folder)
  expect(statSync(folder).mode & 0o777).toBe(0o700)
  rmSync(root, { recursive: true })
})

test('fails where no folder can be made, rather than trying for ever', () => {
  expect(() => {
    makeFolder('/proc/nope/deeper')
  }).toThrow(/ENOENT|EACCES|EROFS|EPERM/)
})
