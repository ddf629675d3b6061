import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { exportStore } from '@sluice/postgres/exports'
import { openPostgres } from '@sluice/postgres/open'
import { testWith } from '../../../tests/support/describe-with.ts'
import {
  describeWithRedis,
  testClickHouse,
  testPostgres,
  testRedis,
} from '../../../tests/support/engines/test-engines.ts'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { finishExport } from '../../../tests/support/finished-export.ts'
import { maxRssBytes } from '../../../tests/support/max-rss.ts'
import { testSecretsKey } from '../../../tests/support/secrets-key.ts'
import { startService } from '../../../tests/support/service-process.ts'

const mebibyte = 1024 * 1024

async function* mebibytes(count: number): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < count; n++) yield await Promise.resolve(Buffer.alloc(mebibyte, n))
}

/** Reads a response to its end, and checks that each MiB is filled with its number. */
async function received(response: Response): Promise<number> {
  let bytes = 0
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    if (chunk[0] !== Math.floor(bytes / mebibyte) % 256) throw new Error(`the byte ${bytes} is wrong`)
    bytes += chunk.length
  }
  return bytes
}

describeWithRedis('the query service', () => {
  const testOnLinux = testWith('Linux', process.platform === 'linux')

  testOnLinux('takes at most 64 MiB of memory more for a download of 300 MiB than for one of 20 MiB', async () => {
    const [postgres, clickHouse] = [await testPostgres({ migrated: true }), testClickHouse()]
    const folder = await mkdtemp(join(tmpdir(), 'sluice-memory-'))
    const key = generateKey('prod')
    const opened = openPostgres(postgres.url)
    await clickHouse.create()
    const [exports, blobs] = [exportStore(opened), await openBlobStore(`file:${folder}`)]
    const service = await startService('query', {
      SLUICE_POSTGRES_URL: postgres.url,
      SLUICE_CLICKHOUSE_URL: clickHouse.url,
      SLUICE_REDIS_URL: testRedis()?.url ?? '',
      SLUICE_BLOBS_URL: `file:${folder}`,
      SLUICE_SECRETS_KEY: testSecretsKey,
      SLUICE_ADMIN_KEY: key,
    })
    async function download(count: number): Promise<number> {
      const { exportId } = await addExport(exports, { site: 'shop' }, Date.now())
      await finishExport({ exports, blobs }, exportId, { content: mebibytes(count) })
      return received(await fetch(`${service.url}/api/v1/exports/${exportId}/download?api_key=${key}`))
    }
    try {
      expect(await download(20)).toBe(20 * mebibyte)
      const before = await maxRssBytes(service.pid)
      expect(await download(300)).toBe(300 * mebibyte)
      expect((await maxRssBytes(service.pid)) - before).toBeLessThanOrEqual(64 * mebibyte)
    } finally {
      await service.stop()
      await opened.close()
      await blobs.close()
      await postgres.drop()
      await clickHouse.drop()
      await rm(folder, { recursive: true })
    }
  })
})
