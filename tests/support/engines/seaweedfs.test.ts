import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { isAlive } from '@sluice/engines/processes'
import { describeWith } from '../describe-with.ts'
import { type LocalSeaweedfs, startSeaweedfs } from './seaweedfs.ts'
import { isSeaweedfsCached, seaweedfsMissing } from './seaweedfs-files.ts'
import { testS3 } from './test-engines.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-seaweedfs-'))
const describeIfRuns = describeWith('SeaweedFS', seaweedfsMissing() === undefined)

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

describeIfRuns('a local SeaweedFS', () => {
  const dir = join(root, 'seaweedfs')
  let server: LocalSeaweedfs

  beforeAll(async () => {
    server = await startSeaweedfs({ dir })
  })

  afterAll(async () => {
    await server.stop()
    expect(isAlive(server.pid)).toBe(false)
    expect(readdirSync(tmpdir())).not.toContain(`seaweedfs-s3-${server.port}.sock`)
  })

  test('was fetched, and refuses a second one in the same folder', async () => {
    expect(isSeaweedfsCached()).toBe(true)
    expect(existsSync(join(dir, 'credentials.json'))).toBe(true)
    await expect(startSeaweedfs({ dir })).rejects.toThrow('is in use by this process')
  })

  test('that is killed is a retryable failure, and has its blobs when it is started again', async () => {
    const { url, credentials } = testS3(server.url)
    const store = await openBlobStore(url, { credentials, timeouts: { connectMs: 60_000, idleMs: 60_000 } })
    const hasty = await openBlobStore(url, { credentials, timeouts: { connectMs: 500, idleMs: 500 } })
    try {
      const { pid } = server
      await store.write('a', [Buffer.from('kept')])
      await server.kill()
      expect(isAlive(pid)).toBe(false)
      await expect(hasty.read('a')).rejects.toMatchObject({ code: 'unavailable', retryable: true })
      await server.restart()
      expect(server.pid).not.toBe(pid)
      expect(await store.size('a')).toBe(4)
      server.pause()
      await expect(hasty.size('a')).rejects.toMatchObject({ code: 'unavailable', retryable: true })
      server.resume()
      expect(await store.size('a')).toBe(4)
    } finally {
      await Promise.all([store, hasty].map((each) => each.close()))
    }
  })
})
