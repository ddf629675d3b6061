import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { loadOrCreateCredentials } from './credentials.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-credentials-'))
})
afterEach(() => rm(folder, { recursive: true }))

test('passwords are made once, also when another user is added', () => {
  const { reader } = loadOrCreateCredentials(folder, ['reader'])
  const both = loadOrCreateCredentials(folder, ['reader', 'writer'])
  expect(both.reader).toBe(reader)
  expect(both.writer).not.toBe(reader)
  expect(loadOrCreateCredentials(folder, ['writer', 'reader'])).toStrictEqual(both)
})

test('a file without passwords, as after a power failure, is named', async () => {
  await writeFile(join(folder, 'credentials.json'), '')
  expect(() => loadOrCreateCredentials(folder, ['reader'])).toThrow(
    expect.objectContaining({
      code: 'internal',
      internal: `${join(folder, 'credentials.json')} is not the file that Sluice has written. Restore it (docs/backup.md#standalone).`,
    }),
  )
})
