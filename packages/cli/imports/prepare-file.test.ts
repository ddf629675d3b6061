import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, jest } from '@jest/globals'
import { stampFile } from './prepare-file.ts'

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-prepare-'))
})

afterAll(() => rm(folder, { recursive: true }))

it('a conversion that often waits for the disk adds to no promise each time, which would keep it all', async () => {
  const path = join(folder, 'events.ndjson')
  // Each line is larger than the buffer of gzip, so the writer waits after each.
  const written = writeFile(path, `{"note":"${'x'.repeat(70_000)}"}\n`.repeat(100))
  await written
  // Promises that Node creates, such as that of the pipeline, are of another class than those of the tests.
  const nodePromise = Object.getPrototypeOf(written) as Promise<unknown>
  const additions = jest.spyOn(nodePromise, 'then')
  await stampFile(path, 1_767_225_600_000, { folder, signal: new AbortController().signal })
  const promises = additions.mock.contexts
  additions.mockRestore()
  const counts = [...Map.groupBy(promises, (promise) => promise).values()].map((same) => same.length)
  expect(Math.max(0, ...counts)).toBeLessThan(5)
})

it('a conversion whose file can’t be written fails while it waits for the disk', async () => {
  const path = join(folder, 'unwritable.ndjson')
  await writeFile(path, `{"note":"${'x'.repeat(70_000)}"}\n`.repeat(100))
  const target = { folder: join(folder, 'nowhere'), signal: new AbortController().signal }
  await expect(stampFile(path, 1_767_225_600_000, target)).rejects.toThrow('ENOENT')
})
