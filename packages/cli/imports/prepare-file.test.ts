import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
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

it('a gzip file with padding between its members is refused, because what follows would be lost', async () => {
  const members = ['{"note":"a"}\n', '{"note":"b"}\n'].map((text) => gzipSync(text))
  const target = { folder, signal: new AbortController().signal }
  const [whole, padded] = [join(folder, 'whole.ndjson.gz'), join(folder, 'padded.ndjson.gz')]
  await writeFile(whole, Buffer.concat(members))
  await expect(stampFile(whole, 1_767_225_600_000, target)).resolves.toBeDefined()
  await writeFile(
    padded,
    Buffer.concat([members[0] ?? Buffer.alloc(0), Buffer.alloc(512), members[1] ?? Buffer.alloc(0)]),
  )
  await expect(stampFile(padded, 1_767_225_600_000, target)).rejects.toThrow('data after the end of its gzip')
})
