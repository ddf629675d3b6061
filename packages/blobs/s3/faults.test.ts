import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { describeWithS3, type TestS3, testS3 } from '../../../tests/support/engines/test-engines.ts'
import { startStopwatch } from '../../../tests/support/stopwatch.ts'
import { type TcpProxy, tcpProxy } from '../../../tests/support/tcp-proxy.ts'
import type { BlobStore } from '../blob-store.ts'
import { chunksOf, collect, mebibyte, readAll, uploadsOf } from '../conformance/harness.ts'
import { openBlobStore, type OpenBlobStoreOptions } from '../open-blob-store.ts'

/** Longer than an answer takes on a slow machine, so that a request is repeated only when its connection breaks. */
const patient = { connectMs: 60_000, idleMs: 60_000 }
/** For tests of a server that falls silent. */
const impatient = { connectMs: 1_000, idleMs: 1_000 }
const away = { code: 'unavailable', retryable: true }
const stores: BlobStore[] = []

const open = async ({ url, credentials }: TestS3, options: OpenBlobStoreOptions = {}) => {
  const store = await openBlobStore(url, { credentials, timeouts: patient, ...options })
  stores.push(store)
  return store
}

/** The same store with another value of a parameter, or in another bucket. */
const changed = (s3: TestS3, change: (url: URL) => void): TestS3 => {
  const url = new URL(s3.url)
  change(url)
  return { ...s3, url: url.href }
}

afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()))
})

describeWithS3('an S3 server', () => {
  describe('behind a connection that fails', () => {
    let proxy: TcpProxy
    let direct: BlobStore
    let throughProxy: TestS3
    let store: BlobStore
    const content = randomBytes(20 * mebibyte)

    beforeEach(async () => {
      const s3 = testS3()
      proxy = await tcpProxy(new URL(s3.url).searchParams.get('endpoint') ?? '')
      throughProxy = changed(s3, ({ searchParams }) => {
        searchParams.set('endpoint', `http://127.0.0.1:${proxy.port}`)
      })
      ;[direct, store] = await Promise.all([open(s3), open(throughProxy)])
    })

    afterEach(() => proxy.close())

    /** Changes no blob but `b`: a request that failed may arrive later. */
    const callAll = (store: BlobStore): Promise<unknown>[] => {
      const upload = { name: 'b', uploadId: 'x' }
      return [
        store.write('b', chunksOf(Buffer.from('x'))),
        store.write('b', chunksOf(content)),
        store.read('a'),
        store.size('a'),
        store.remove(['b']),
        collect(store.list('')),
        store.createMultipartUpload('b'),
        store.uploadPart(upload, 1, Buffer.from('x')),
        store.completeMultipartUpload(upload, [{ n: 1, etag: 'x', bytes: 1 }]),
        store.abortMultipartUpload(upload),
        collect(store.listMultipartUploads()),
        store.check(),
      ]
    }

    test.each<[string, () => Promise<void> | void]>([
      ['that is gone', () => proxy.cut()],
      ['that does not answer', () => proxy.freeze()],
    ])('one %s is a retryable failure of every call, within seconds, until it is back', async (_, fail) => {
      await direct.write('a', chunksOf(Buffer.from('before')))
      const hasty = await open(throughProxy, { timeouts: impatient })
      await fail()
      const elapsedMs = startStopwatch()
      for (const result of await Promise.allSettled(callAll(hasty))) {
        expect(result).toMatchObject({ status: 'rejected', reason: away })
        expect((result as PromiseRejectedResult).reason).toMatchObject({
          internal: expect.stringContaining('SLUICE_BLOBS_URL'),
        })
      }
      expect(elapsedMs()).toBeLessThan(15_000)
      await proxy.mend()
      expect((await readAll(store, 'a')).toString()).toBe('before')
    })

    test('a server that does not answer fails the check within five seconds, whatever the timeouts', async () => {
      proxy.freeze()
      const elapsedMs = startStopwatch()
      await expect(store.check()).rejects.toMatchObject(away)
      expect(elapsedMs()).toBeLessThan(8_000)
    })

    test('a check that passed is not repeated at each probe', async () => {
      const probed = await open(throughProxy)
      await probed.check()
      await proxy.cut()
      await probed.check()
      await expect(store.check()).rejects.toMatchObject(away)
    })

    /** Opens the blob, waits for its first bytes, and returns the stream. */
    const beginReading = async (from = store): Promise<Readable> => {
      const stream = await from.read('a')
      await once(stream, 'readable')
      return stream
    }
    const rest = async (stream: Readable) => Buffer.concat((await stream.toArray()) as Buffer[])

    test.each<[string, () => void]>([
      ['is reset', () => proxy.reset()],
      ['falls silent', () => proxy.strand()],
    ])('reading goes on when the connection %s', async (_, fail) => {
      await direct.write('a', chunksOf(content))
      const stream = await beginReading(await open(throughProxy, { timeouts: { connectMs: 60_000, idleMs: 5_000 } }))
      fail()
      expect((await rest(stream)).equals(content)).toBe(true)
    })

    test('reading a range goes on within it', async () => {
      await direct.write('a', chunksOf(content))
      const stream = await store.read('a', { start: 1_000, end: 15_000_000 })
      await once(stream, 'readable')
      proxy.reset()
      expect((await rest(stream)).equals(content.subarray(1_000, 15_000_001))).toBe(true)
    })

    test('reading fails when the server stays unavailable, and does not end early', async () => {
      await direct.write('a', chunksOf(content))
      const stream = await beginReading()
      await proxy.cut()
      await expect(rest(stream)).rejects.toMatchObject(away)
    })

    test('reading does not go on in a blob that was replaced or removed', async () => {
      for (const [change, error] of [
        [() => direct.write('a', chunksOf(randomBytes(20 * mebibyte))), away],
        [() => direct.remove(['a']), { code: 'not_found' }],
      ] as const) {
        await direct.write('a', chunksOf(content))
        const stream = await beginReading()
        await change()
        proxy.reset()
        await expect(rest(stream)).rejects.toMatchObject(error)
      }
    })

    test('writing goes on after a reset connection, and is given up when the server stays unavailable', async () => {
      const failing = async function* (fail: () => void | Promise<void>) {
        yield* chunksOf(content)
        await fail()
        yield* chunksOf(content)
      }
      await store.write(
        'a',
        failing(() => proxy.reset()),
      )
      expect((await readAll(direct, 'a')).equals(Buffer.concat([content, content]))).toBe(true)

      await expect(
        store.write(
          'b',
          failing(() => proxy.cut()),
        ),
      ).rejects.toMatchObject(away)
      expect(await direct.size('b')).toBeUndefined()
      // The upload could not be aborted; whoever cleans up finds it.
      const uploads = await uploadsOf(direct)
      expect(uploads).toMatchObject([{ name: 'b' }])
      for (const upload of uploads) await direct.abortMultipartUpload(upload)
      expect(await uploadsOf(direct)).toEqual([])
    })

    test('an aborted write ends though the server does not answer', async () => {
      proxy.freeze()
      const reason = new Error('cancelled')
      const abort = new AbortController()
      const writing = store.write('a', chunksOf(Buffer.from('x')), { signal: abort.signal })
      abort.abort(reason)
      await expect(writing).rejects.toBe(reason)
    })
  })

  describe('with a wrong setting', () => {
    const refused = (variable: string) => ({
      code: 'internal',
      retryable: false,
      needsOperator: true,
      internal: expect.stringContaining(variable),
    })

    const expectEverywhere = async (store: BlobStore, error: object, secret = '') => {
      const calls = [
        store.check(),
        store.write('a', chunksOf(Buffer.from('x'))),
        store.write('a', chunksOf(Buffer.alloc(20 * mebibyte))),
        store.read('a'),
        store.size('a'),
        store.remove(['a']),
        collect(store.list('')),
        store.createMultipartUpload('a'),
        collect(store.listMultipartUploads()),
      ]
      for (const result of await Promise.allSettled(calls)) {
        expect(result).toMatchObject({ status: 'rejected', reason: error })
        const shown = inspect(result, { depth: 20, showHidden: true })
        expect(shown).not.toContain('AWS4-HMAC')
        if (secret !== '') expect(shown).not.toContain(secret)
      }
    }

    test('a wrong secret is an error that names its variable, and does not hold it', async () => {
      const s3 = testS3()
      const secretAccessKey = 'a-wrong-secret'
      const store = await open({ ...s3, credentials: { ...s3.credentials, secretAccessKey } })
      await expectEverywhere(store, refused('SLUICE_S3_SECRET_ACCESS_KEY'), secretAccessKey)
    })

    test('an unknown access key is an error that names its variable', async () => {
      const s3 = testS3()
      const store = await open({ ...s3, credentials: { ...s3.credentials, accessKeyId: 'UNKNOWN' } })
      await expectEverywhere(store, refused('SLUICE_S3_ACCESS_KEY_ID'), s3.credentials.secretAccessKey)
    })

    test('a missing bucket is an error that names the variable', async () => {
      const store = await open(
        changed(testS3(), (url) => {
          url.hostname = 'no-such-bucket'
        }),
      )
      await expectEverywhere(store, refused('The bucket no-such-bucket does not exist: check SLUICE_BLOBS_URL'))
    })
  })

  describe('without credentials in the configuration', () => {
    /** Checks the store in a process with these variables and no others; resolves to the failure, if there is one. */
    const checkWith = async (s3: TestS3, env: Record<string, string>): Promise<string> => {
      const program = fileURLToPath(new URL('../conformance/store-process.ts', import.meta.url))
      const withoutOthers = {
        AWS_EC2_METADATA_DISABLED: 'true',
        AWS_CONFIG_FILE: '/nonexistent',
        AWS_SHARED_CREDENTIALS_FILE: '/nonexistent',
      }
      const child = fork(program, ['check', s3.url], { env: { ...withoutOthers, ...env } })
      const [{ failure }] = (await once(child, 'message')) as [{ failure: string }]
      return failure
    }

    test('those of the environment are used', async () => {
      const s3 = testS3()
      const { accessKeyId, secretAccessKey } = s3.credentials
      const environment = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }
      expect(await checkWith(s3, environment)).toBe('')
    })

    test('their absence is named with the variables', async () => {
      const failure = await checkWith(testS3(), {})
      expect(failure).toContain('SLUICE_S3_ACCESS_KEY_ID and SLUICE_S3_SECRET_ACCESS_KEY')
    })
  })
})
