import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { internalError, unavailable } from '@sluice/runtime/errors'
import { type BlobStore, type ByteRange, type MultipartUpload, probeName, type UploadedPart } from '../blob-store.ts'
import { blobNotFound, isUploadConflict, rangeNotSatisfiable, uploadConflict } from '../errors.ts'
import { checkName, checkPartNumber, checkParts, checkPrefix, checkRange, isName, totalBytes } from '../rules.ts'
import { createClient, type S3Credentials, type S3Timeouts } from './client.ts'
import { resumeBody } from './resume-body.ts'
import { s3ErrorName, s3ErrorStatus, toS3Error } from './s3-error.ts'
import { splitIntoParts } from './split-into-parts.ts'
import type { S3Address } from './url.ts'
import { writeInParts } from './write-in-parts.ts'

/** Maximum number of concurrent requests, each of which removes an object. */
const removalConcurrencyMax = 16
const checkTimeoutMs = 5_000
/**
 * For this time after a passed check, the check is not repeated. Readiness checks run every second, and each check of
 * S3 is three billed requests.
 */
const checkValidForMs = 30_000

export interface S3StoreOptions {
  /** By default, the SDK uses the machine's credentials (see createClient). */
  credentials?: S3Credentials | undefined
  timeouts?: S3Timeouts | undefined
}

/**
 * Opens a store in a bucket, which must exist. Returns without waiting for the server. A blob is an object whose key is
 * the prefix followed by the name. A request without an answer fails after three attempts.
 *
 * The credentials need `s3:GetObject`, `PutObject`, `DeleteObject`, `AbortMultipartUpload`, `ListBucket` and
 * `ListBucketMultipartUploads`.
 */
export function openS3Store(address: S3Address, { credentials, timeouts }: S3StoreOptions = {}): BlobStore {
  const client = createClient(address, credentials, timeouts)
  const { bucket: Bucket, prefix } = address
  const objectOf = (name: string): { Bucket: string; Key: string } => {
    checkName(name)
    return { Bucket, Key: `${prefix}${name}` }
  }
  const uploadOf = ({ name, uploadId }: MultipartUpload) => ({ ...objectOf(name), UploadId: uploadId })
  /** `performance.now()` when the last check passed. */
  let passedAt = -Infinity
  const nameOf = (key: string | undefined): string => (key ?? '').slice(prefix.length)

  /**
   * Runs a request. For an expected failure, `expected` returns the error to throw. Rejects with the signal's reason
   * after that has aborted.
   */
  const attempt = async <T>(
    what: string,
    request: (options: { abortSignal?: AbortSignal }) => Promise<T>,
    { signal, expected }: { signal?: AbortSignal | undefined; expected?: (error: unknown) => Error | undefined } = {},
  ): Promise<T> => {
    try {
      return await request(signal ? { abortSignal: signal } : {})
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      throw expected?.(error) ?? toS3Error(address, `${what} in ${Bucket}`, error)
    }
  }

  const put = (name: string, content: Buffer, signal: AbortSignal | undefined) =>
    attempt(
      `PutObject of ${name}`,
      (options) => client.send(new PutObjectCommand({ ...objectOf(name), Body: content }), options),
      { signal },
    )

  const get = async (name: string, asked: { Range?: string; IfMatch?: string }, range: ByteRange | undefined) => {
    const { Body, ETag } = await attempt(
      `GetObject of ${name}`,
      () => client.send(new GetObjectCommand({ ...objectOf(name), ...asked })),
      {
        expected: (error) => {
          const code = s3ErrorName(error)
          if (code === 'NoSuchKey') return blobNotFound(name)
          if (code === 'InvalidRange' && range) return rangeNotSatisfiable(name, range)
          return code === 'PreconditionFailed'
            ? unavailable(`The blob ${name} was replaced while it was read`)
            : undefined
        },
      },
    )
    // In Node, the SDK returns the response itself.
    return { body: Body as Readable, etag: ETag ?? '' }
  }

  // DeleteObjects would remove many objects in one request, but S3-compatible servers require different checksums for
  // it.
  const removeOne = async (name: string): Promise<void> => {
    try {
      await client.send(new DeleteObjectCommand(objectOf(name)))
    } catch (error) {
      // S3 itself does not report that the object was missing.
      if (s3ErrorName(error) !== 'NoSuchKey') throw toS3Error(address, `DeleteObject of ${name} in ${Bucket}`, error)
    }
  }

  const sizeOf = async (name: string): Promise<number | undefined> => {
    const object = objectOf(name)
    try {
      const { ContentLength } = await client.send(new HeadObjectCommand(object))
      return ContentLength
    } catch (error) {
      if (s3ErrorStatus(error) !== 404) throw toS3Error(address, `HeadObject of ${name} in ${Bucket}`, error)
    }
    // The response to a HEAD has no body, so it does not say whether the object or the bucket is missing.
    await attempt('HeadBucket', () => client.send(new HeadBucketCommand({ Bucket })), {
      expected: (error) =>
        s3ErrorStatus(error) === 404
          ? internalError(`The bucket ${Bucket} does not exist: check SLUICE_BLOBS_URL`)
          : undefined,
    })
    return undefined
  }

  const createMultipartUpload = async (name: string, signal?: AbortSignal): Promise<MultipartUpload> => {
    const { UploadId } = await attempt(
      `CreateMultipartUpload of ${name}`,
      (options) => client.send(new CreateMultipartUploadCommand(objectOf(name)), options),
      { signal },
    )
    if (UploadId === undefined) throw unavailable(`S3 returned no UploadId for ${name}`)
    return { name, uploadId: UploadId }
  }

  const uploadPart = async (upload: MultipartUpload, n: number, content: Uint8Array, signal?: AbortSignal) => {
    checkPartNumber(n)
    const { ETag } = await attempt(
      `UploadPart ${n} of ${upload.name}`,
      (options) => client.send(new UploadPartCommand({ ...uploadOf(upload), PartNumber: n, Body: content }), options),
      {
        signal,
        expected: (error) => (isGone(error) ? uploadConflict(upload, 'it was completed or aborted') : undefined),
      },
    )
    if (ETag === undefined) throw unavailable(`S3 returned no ETag for part ${n} of ${upload.name}`)
    return { etag: ETag }
  }

  const completeMultipartUpload = async (upload: MultipartUpload, parts: readonly UploadedPart[]): Promise<void> => {
    checkParts(parts)
    const MultipartUpload = { Parts: parts.map(({ n, etag }) => ({ PartNumber: n, ETag: etag })) }
    try {
      await client.send(new CompleteMultipartUploadCommand({ ...uploadOf(upload), MultipartUpload }))
    } catch (error) {
      if (s3ErrorName(error) === 'InvalidPart') throw uploadConflict(upload, 'a part is missing or was replaced')
      if (!isGone(error)) throw toS3Error(address, `CompleteMultipartUpload of ${upload.name} in ${Bucket}`, error)
      // An earlier attempt of the SDK, this process or another process may have completed the upload.
      if ((await sizeOf(upload.name)) !== totalBytes(parts)) throw uploadConflict(upload, 'it was completed or aborted')
    }
  }

  const abortMultipartUpload = async (upload: MultipartUpload, signal?: AbortSignal): Promise<void> => {
    try {
      await attempt(
        `AbortMultipartUpload of ${upload.name}`,
        (options) => client.send(new AbortMultipartUploadCommand(uploadOf(upload)), options),
        { signal, expected: (error) => (isGone(error) ? uploadConflict(upload, 'it is gone') : undefined) },
      )
    } catch (error) {
      if (!isUploadConflict(error)) throw error
    }
  }

  return {
    write: async (name, content, { signal } = {}) => {
      checkName(name)
      const parts = splitIntoParts(content, signal)
      const first = (await parts.next()).value ?? Buffer.alloc(0)
      const second = await parts.next()
      if (second.done === true) {
        await put(name, first, signal)
        return { bytes: first.length }
      }
      const writer = {
        begin: () => createMultipartUpload(name, signal),
        send: (upload: MultipartUpload, n: number, part: Buffer) => uploadPart(upload, n, part, signal),
        complete: async (upload: MultipartUpload, written: readonly UploadedPart[]) => {
          signal?.throwIfAborted()
          await completeMultipartUpload(upload, written)
        },
        abort: abortMultipartUpload,
      }
      return { bytes: await writeInParts(writer, [first, second.value], parts) }
    },

    read: async (name, range) => {
      checkRange(range)
      const start = range?.start ?? 0
      const end = range?.end ?? ''
      const { body, etag } = await get(name, range ? { Range: `bytes=${start}-${end}` } : {}, range)
      return resumeBody(body, async (received) => {
        const rest = await get(name, { Range: `bytes=${start + received}-${end}`, IfMatch: etag }, range)
        return rest.body
      })
    },

    size: sizeOf,

    remove: async (names) => {
      names.forEach(checkName)
      const limit = concurrencyLimit(removalConcurrencyMax)
      const outcomes = await Promise.allSettled(names.map((name) => limit(() => removeOne(name))))
      const failed = outcomes.find((outcome) => outcome.status === 'rejected')
      if (failed) throw failed.reason
    },

    list: async function* (namePrefix) {
      checkPrefix(namePrefix)
      let ContinuationToken: string | undefined
      do {
        const page = await attempt('ListObjectsV2', () =>
          client.send(new ListObjectsV2Command({ Bucket, Prefix: `${prefix}${namePrefix}`, ContinuationToken })),
        )
        for (const { Key, Size = 0, LastModified } of page.Contents ?? []) {
          const name = nameOf(Key)
          if (isName(name)) yield { name, bytes: Size, modifiedAt: LastModified?.getTime() ?? 0 }
        }
        if (page.NextContinuationToken === ContinuationToken) return
        ContinuationToken = page.NextContinuationToken
      } while (ContinuationToken !== undefined)
    },

    createMultipartUpload,
    uploadPart,
    completeMultipartUpload,
    abortMultipartUpload,

    listMultipartUploads: async function* () {
      let marker: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } = {}
      for (;;) {
        const page = await attempt('ListMultipartUploads', () =>
          client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: prefix, ...marker })),
        )
        for (const { Key, UploadId = '', Initiated } of page.Uploads ?? []) {
          const name = nameOf(Key)
          if (isName(name)) yield { name, uploadId: UploadId, startedAt: Initiated?.getTime() ?? 0 }
        }
        const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = page
        // If a server names no further page, the next request would return the same page without end.
        if (page.IsTruncated !== true || KeyMarker === undefined) return
        if (KeyMarker === marker.KeyMarker && UploadIdMarker === marker.UploadIdMarker) return
        marker = { KeyMarker, UploadIdMarker }
      }
    },

    // Beginning an upload shows that the credentials allow writing. It leaves nothing behind, not even a version of an
    // object.
    check: async () => {
      if (performance.now() - passedAt < checkValidForMs) return
      const signal = AbortSignal.timeout(checkTimeoutMs)
      try {
        const upload = await createMultipartUpload(probeName, signal)
        await abortMultipartUpload(upload, signal)
        const Prefix = `${prefix}${probeName}`
        await attempt(
          'ListObjectsV2',
          (options) => client.send(new ListObjectsV2Command({ Bucket, Prefix, MaxKeys: 1 }), options),
          { signal },
        )
        passedAt = performance.now()
      } catch (error) {
        throw signal.aborted
          ? unavailable(
              `S3 at ${address.endpoint ?? address.region} (SLUICE_BLOBS_URL) did not answer within ${checkTimeoutMs} ms`,
            )
          : error
      }
    },

    disk: () => Promise.resolve(undefined),

    close: () => {
      client.destroy()
      return Promise.resolve()
    },
  }
}

function isGone(error: unknown): boolean {
  return s3ErrorName(error) === 'NoSuchUpload'
}
