import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { makeFolder } from './make-folder.ts'

test('makeFolder creates missing folders for its user alone and accepts existing ones', () => {
  const root = mkdtempSync(join(tmpdir(), 'sluice-folder-'))
  const folder = join(root, 'a', 'b')
  makeFolder(folder)
  makeFolder(folder)
  expect(statSync(folder).mode & 0o777).toBe(0o700)
  rmSync(root, { recursive: true })
})

test('makeFolder throws where no folder can be created, instead of trying for ever', () => {
  expect(() => makeFolder('/proc/nope/deeper')).toThrow(/ENOENT|EACCES|EROFS|EPERM/)
})
