// The tests of TLS for Kafka and Redis are beside the code of these engines.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { blobsUrl } from '@sluice/blobs/variables'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { externalTableClient } from '@sluice/event-store/clickhouse/external-table'
import { clickHouseUrl } from '@sluice/event-store/clickhouse/variables'
import { requireDumpable } from '@sluice/postgres/dump'
import { openPostgres } from '@sluice/postgres/open'
import { postgresUrl } from '@sluice/postgres/variables'
import { loadConfig } from '@sluice/runtime/config'
import { describeWithOpenssl, makeCertificate, type TestCertificate } from '../support/certificates.ts'
import { testWith } from '../support/describe-with.ts'
import { postgresPrograms } from '../support/engines/postgres-programs.ts'
import { describeWithS3, testClickHouse, testPostgres, testS3 } from '../support/engines/test-engines.ts'
import { type TlsProxy, tlsProxy } from '../support/tls-proxy.ts'

describeWithOpenssl('TLS by URL, with an authority of its own', () => {
  let folder: string
  let certificate: TestCertificate
  const closing: (() => Promise<void>)[] = []

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-engines-tls-'))
    certificate = makeCertificate(folder, 'engine')
  })

  afterAll(() => {
    rmSync(folder, { recursive: true })
  })

  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })

  async function withTls(url: string, options?: { isPostgres: boolean }): Promise<TlsProxy> {
    const proxy = await tlsProxy(url, certificate, options)
    closing.push(() => proxy.close())
    return proxy
  }

  test('ClickHouse: queries and inserts', async () => {
    const { port } = await withTls(testClickHouse().url)
    const url = new URL(testClickHouse().url)
    Object.assign(url, { protocol: 'https:', port: String(port), pathname: '/default' })
    const open = (href: string) => {
      const clickHouse = openClickHouse(href)
      closing.push(() => clickHouse.close())
      return clickHouse
    }
    await expect(open(url.href).check()).rejects.toMatchObject({
      internal: expect.stringMatching(/certificate/) as unknown,
    })
    url.searchParams.set('ca', certificate.cert)
    const trusting = open(url.href)
    expect((await trusting.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    const inserts = externalTableClient(trusting.address)
    closing.push(() => {
      inserts.close()
      return Promise.resolve()
    })
    const sql = 'SELECT sum(n) FROM b FORMAT TSV'
    const payloads = [Buffer.from('{"n":2}\n{"n":3}\n')]
    const query = { sql, structure: 'n UInt8', payloads, settings: {}, timeoutMs: 10_000 }
    expect((await inserts.post(query)).text).toBe('5\n')
  })

  test('Postgres', async () => {
    const database = await testPostgres()
    closing.push(() => database.drop())
    const { port } = await withTls(database.url, { isPostgres: true })
    const url = new URL(database.url)
    Object.assign(url, { port: String(port) })
    const open = (href: string) => {
      const postgres = openPostgres(href)
      closing.push(() => postgres.close())
      return postgres
    }
    url.searchParams.set('sslmode', 'verify-full')
    await expect(open(url.href).check()).rejects.toThrow(/certificate/)
    url.searchParams.set('sslrootcert', certificate.cert)
    await open(url.href).check()
  })

  testWith('programs of PostgreSQL', postgresPrograms() !== undefined)(
    'pg_dump is as strict as the services, whatever the mode is called',
    async () => {
      const database = await testPostgres()
      closing.push(() => database.drop())
      const { port } = await withTls(database.url, { isPostgres: true })
      const url = new URL(database.url)
      Object.assign(url, { port: String(port) })
      const dump = () => requireDumpable({ url: url.href, searchPath: postgresPrograms() })
      for (const mode of ['verify-full', 'verify-ca', 'require', 'prefer']) {
        url.searchParams.set('sslmode', mode)
        await expect(dump()).rejects.toThrow(/certificate[^]*Name the authorities in SLUICE_POSTGRES_URL: sslrootcert=/)
      }
      url.searchParams.set('sslrootcert', certificate.cert)
      url.searchParams.delete('sslmode')
      // The connection succeeds, but `pg_dump` may refuse the server of the tests, which may be newer.
      const reason = await dump().catch((error: unknown) => String(error))
      expect(reason ?? 'server version').toContain('server version')
    },
  )

  describeWithS3('S3', () => {
    test('blobs are written and read', async () => {
      const { url: plain, credentials } = testS3()
      const url = new URL(plain)
      const { port } = await withTls(url.searchParams.get('endpoint') ?? '')
      url.searchParams.set('endpoint', `https://127.0.0.1:${port}`)
      const open = async (href: string) => {
        const store = await openBlobStore(href, { credentials })
        closing.push(() => store.close())
        return store
      }
      await expect((await open(url.href)).check()).rejects.toMatchObject({
        internal: expect.stringMatching(/certificate/) as unknown,
      })
      url.searchParams.set('ca', certificate.cert)
      await (await open(url.href)).check()
    })
  })
})

describe('a file of authorities that cannot be used is a mistake of the variable', () => {
  test.each([
    [clickHouseUrl, 'https://h/d?ca=/nowhere/ca.pem', 'ENOENT'],
    [clickHouseUrl, 'https://h/d?ca=/dev/null', '/dev/null holds no PEM certificate'],
    [clickHouseUrl, 'http://h/d?ca=/dev/null', '"ca" needs https:'],
    [postgresUrl, 'postgres://h/d?sslmode=verify-full&sslrootcert=/nowhere/ca.pem', '"sslrootcert": ENOENT'],
    [postgresUrl, 'postgres://h/d?sslmod=verify-full', 'unknown parameter (known: ssl, sslmode, sslrootcert, '],
    [postgresUrl, 'postgres://h/d?sslrootcert=/dev/null', '"sslrootcert": /dev/null holds no PEM certificate'],
    [blobsUrl, 's3://bucket?region=a&ca=/nowhere/ca.pem', 'ENOENT'],
    [blobsUrl, 's3://bucket?endpoint=http://h&ca=/dev/null', '"ca" needs an endpoint of https:'],
  ])('%#', (variable, URL, mistake) => {
    expect(() => loadConfig({ URL: variable }, { URL })).toThrow(mistake)
  })
})
