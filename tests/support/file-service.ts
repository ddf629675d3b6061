// A service with an upload and downloads, which are not in the table of operations of the product.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import joi from 'joi'
import { denyAll } from '@sluice/access/access'
import type { Operation } from '@sluice/api/operation'
import { createAdmission } from '@sluice/http/admission'
import { createListener } from '@sluice/http/app'
import { clientReader } from '@sluice/http/client-address'
import { createDispatch } from '@sluice/http/dispatch'
import { handle } from '@sluice/http/handle'
import type { ByteRange, Route } from '@sluice/http/route'
import { httpServer } from '@sluice/http/server'
import { type ServerLimits, serverLimits } from '@sluice/http/server-limits'
import type { UploadStore } from '@sluice/http/upload'
import { createWorkQueue } from '@sluice/http/work-queue'
import { createMetrics } from '@sluice/runtime/metrics'
import { type CapturedLogger, capturedLogger } from './captured-logger.ts'
import { exactClock } from './clock.ts'

const base = { method: 'GET', section: 'Tests', scope: 'public', rights: { of: 'none' } } as const

export interface StoredFile {
  fileName: string
  size: number
  sha256: string
}

const uploadOperation = {
  ...base,
  id: 'upload',
  method: 'POST',
  path: '/upload',
  summary: 'Stores a file.',
  body: {
    kind: 'multipart',
    fields: joi.object<{ title: string; note?: string }>({ title: joi.string().required(), note: joi.string() }),
    file: 'file',
    maxBytes: 256 * 1024 * 1024,
  },
  response: {
    status: 201,
    data: joi.object<StoredFile & { title: string }>({
      title: joi.string(),
      fileName: joi.string(),
      size: joi.number(),
      sha256: joi.string(),
    }),
  },
} as const satisfies Operation

const smallUpload = {
  ...uploadOperation,
  id: 'uploadSmall',
  path: '/upload-small',
  body: { ...uploadOperation.body, maxBytes: 1_000 },
} as const satisfies Operation

const download = {
  ...base,
  id: 'download',
  path: '/download/:size',
  summary: 'Sends so many bytes.',
  response: { status: 200, file: ['application/octet-stream'] },
} as const satisfies Operation

const memory = {
  ...base,
  id: 'memory',
  path: '/memory',
  summary: 'Shows the largest resident set so far, in bytes.',
  response: { status: 200, data: joi.object<{ maxRssBytes: number }>({ maxRssBytes: joi.number() }) },
} as const satisfies Operation

/** Counters and switches of the routes. */
export interface FileServiceState {
  stored: Set<StoredFile>
  /** Files whose storing has begun. */
  begun: number
  /** Files that were stored and removed again. */
  removed: number
  /** Files whose stream failed before its end. */
  failed: number
  /** Streams of downloads that are open, and how many were opened in all. */
  open: number
  opened: number
  /** If set, the store throws this error instead of storing the file. */
  storeError: Error | undefined
  /** What the store waits for before it throws an error. */
  tidiedUp: Promise<void>
  /** Thrown by the handler, if set, once the file is stored. */
  handlerError: Error | undefined
  /** Thrown by the store in place of removing, if set. */
  removeError: Error | undefined
  /** The name of the content of downloads. */
  etag: string
  /** Bytes that the streams of downloads lack at their end. */
  missingBytes: number
}

export interface FileService extends CapturedLogger {
  port: number
  url: string
  state: FileServiceState
  stop: () => Promise<void>
}

/** The byte at a position of every download. */
export function byteAt(position: number): number {
  return position % 251
}

const chunk = Buffer.from(Array.from({ length: 251 * 256 }, (_, position) => byteAt(position)))

/** The bytes from `start` to `end`, both included. */
export function* downloadBytes({ start, end }: ByteRange): Generator<Buffer> {
  for (let at = start; at <= end;) {
    const offset = at % 251
    const part = chunk.subarray(offset, offset + Math.min(chunk.length - offset, end - at + 1))
    yield part
    at += part.length
  }
}

function store(state: FileServiceState): UploadStore<StoredFile> {
  return {
    save: async (file, fileName) => {
      state.begun++
      const hash = createHash('sha256')
      let size = 0
      try {
        for await (const part of file as AsyncIterable<Buffer>) {
          if (state.storeError) throw state.storeError
          hash.update(part)
          size += part.length
        }
      } catch (error) {
        state.failed++
        await state.tidiedUp
        throw error
      }
      const stored = { fileName, size, sha256: hash.digest('hex') }
      state.stored.add(stored)
      return stored
    },
    remove: (stored) => {
      if (state.removeError) return Promise.reject(state.removeError)
      state.stored.delete(stored)
      state.removed++
      return Promise.resolve()
    },
  }
}

function routesOf(state: FileServiceState): Route[] {
  return [
    ...[uploadOperation, smallUpload].map((operation) =>
      handle(operation, async ({ body }) => {
        const { fields, stored } = await body.receive(store(state))
        if (state.handlerError) throw state.handlerError
        return { title: fields.title, ...stored }
      }),
    ),
    handle(download, ({ params }) => {
      const size = Number(params.size)
      return Promise.resolve({
        contentType: 'application/octet-stream',
        fileName: 'Größe "1".bin',
        content: { size, etag: state.etag },
        open: (range = { start: 0, end: size - 1 }) => {
          state.open++
          state.opened++
          const stream = Readable.from(downloadBytes({ ...range, end: range.end - state.missingBytes }), {
            objectMode: false,
          })
          stream.once('close', () => state.open--)
          return Promise.resolve(stream)
        },
      })
    }),
    handle(memory, () => Promise.resolve({ maxRssBytes: process.resourceUsage().maxRSS * 1024 })),
  ]
}

/** Runs the routes on a free port of 127.0.0.1. */
export async function startFileService(limits: Partial<ServerLimits> = {}): Promise<FileService> {
  const captured = capturedLogger()
  const metrics = createMetrics()
  const clients = clientReader([])
  const corsOrigins = new Set<string>()
  const admission = createAdmission(metrics)
  const dispatch = createDispatch({
    routes: [],
    access: denyAll,
    clients,
    corsOrigins,
    admission,
    workQueue: createWorkQueue(metrics),
    logger: captured.logger,
    metrics,
    clock: exactClock,
  })
  const state: FileServiceState = {
    stored: new Set(),
    begun: 0,
    removed: 0,
    failed: 0,
    open: 0,
    opened: 0,
    storeError: undefined,
    tidiedUp: Promise.resolve(),
    handlerError: undefined,
    removeError: undefined,
    etag: 'first',
    missingBytes: 0,
  }
  const server = httpServer('files', createListener(routesOf(state), [], { dispatch, clients, corsOrigins }), {
    host: '127.0.0.1',
    port: 0,
    portVariable: 'SLUICE_PORT',
    requestsMs: 5_000,
    limits: { ...serverLimits, ...limits },
  })
  await server.start?.()
  return {
    ...captured,
    port: server.port(),
    url: `http://127.0.0.1:${server.port()}`,
    state,
    stop: async () => {
      await server.stop?.()
    },
  }
}
