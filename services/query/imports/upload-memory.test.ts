import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { expect } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { testWith } from '../../../tests/support/describe-with.ts'
import {
  describeWithRedis,
  testClickHouse,
  testPostgres,
  testRedis,
} from '../../../tests/support/engines/test-engines.ts'
import { fieldPart, formEnd, formType, part } from '../../../tests/support/import-uploads.ts'
import { maxRssBytes } from '../../../tests/support/max-rss.ts'
import { testSecretsKey } from '../../../tests/support/secrets-key.ts'
import { startService } from '../../../tests/support/service-process.ts'

const mebibyte = 1024 * 1024
const row = 'view,1700000000000,https://example.com/a/path/that/is/not/so/short,a-session-id,a-user-id\n'
const block = Buffer.from(row.repeat(Math.ceil(mebibyte / row.length)))

/** Sends a file of so many MiB. */
async function upload(url: string, key: string, mebibytes: number): Promise<string> {
  const header = 'event_type,timestamp_ms,url,session_id,user_id\n'
  const start = part('; name="file"; filename="a.csv"', header).subarray(0, -2)
  const body = [fieldPart('type', 'events'), fieldPart('site_id', 'shop'), start]
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const outgoing = request(`${url}/api/v1/imports`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': formType },
    agent: false,
  })
  outgoing.on('response', (incoming) => {
    text(incoming).then(resolve, reject)
  })
  outgoing.on('error', reject)
  const file = Array.from({ length: mebibytes }, () => block)
  await pipeline(Readable.from([...body, ...file, Buffer.from('\r\n'), formEnd]), outgoing)
  return promise
}

describeWithRedis('the query service', () => {
  const testOnLinux = testWith('Linux', process.platform === 'linux')

  testOnLinux('takes at most 64 MiB of memory more for a file of 150 MiB than for one of 50 MiB', async () => {
    const [postgres, clickHouse] = [await testPostgres({ migrated: true }), testClickHouse()]
    const folder = await mkdtemp(join(tmpdir(), 'sluice-memory-'))
    const key = generateKey('prod')
    await clickHouse.create()
    const service = await startService('query', {
      SLUICE_POSTGRES_URL: postgres.url,
      SLUICE_CLICKHOUSE_URL: clickHouse.url,
      SLUICE_REDIS_URL: testRedis()?.url ?? '',
      SLUICE_BLOBS_URL: `file:${folder}`,
      SLUICE_SECRETS_KEY: testSecretsKey,
      SLUICE_ADMIN_KEY: key,
    })
    try {
      expect(await upload(service.url, key, 50)).toContain('"success":true')
      const before = await maxRssBytes(service.pid)
      expect(await upload(service.url, key, 150)).toContain(`"total_records":${(150 * block.length) / row.length}`)
      expect((await maxRssBytes(service.pid)) - before).toBeLessThanOrEqual(64 * mebibyte)
    } finally {
      await service.stop()
      await postgres.drop()
      await clickHouse.drop()
      await rm(folder, { recursive: true })
    }
  })
})
