import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterEach } from '@jest/globals'
import type { BlobStore, ByteRange, MultipartUpload, StoredBlob } from '../blob-store.ts'
import { openBlobStore, type OpenBlobStoreOptions } from '../open-blob-store.ts'

export const mebibyte = 1024 * 1024

/** Where a store is: what openBlobStore needs, in this process or in another one. */
export interface Place {
  url: string
  options: OpenBlobStoreOptions
}

export interface ConformanceSubject {
  /** Returns the place of a new, empty store. */
  createPlace: () => Place
}

/** Fixtures that the tests of one suite share; `createHarness` registers the clean-up after each test. */
export type Harness = ReturnType<typeof createHarness>

/** To be called within a `describe`. */
export function createHarness({ createPlace }: ConformanceSubject) {
  const stores: BlobStore[] = []
  const processes: ChildProcess[] = []

  const open = async ({ url, options }: Place): Promise<BlobStore> => {
    const store = await openBlobStore(url, options)
    stores.push(store)
    return store
  }

  /** Runs `task` of store-process.ts on a store; `message` resolves to the first message of the process. */
  const startProcess = ({ url, options }: Place, task: string) => {
    const program = fileURLToPath(new URL('./store-process.ts', import.meta.url))
    const child = fork(program, [task, url, JSON.stringify(options)], { execArgv: ['--expose-gc'] })
    processes.push(child)
    const exited = once(child, 'exit')
    const message = Promise.race([
      once(child, 'message').then(([sent]) => sent as Record<string, number>),
      exited.then(() => Promise.reject(new Error(`${task} ended without a message`))),
    ])
    const kill = async () => {
      child.kill('SIGKILL')
      await exited
    }
    return { message, kill }
  }

  afterEach(async () => {
    for (const child of processes.splice(0)) child.kill('SIGKILL')
    await Promise.all(stores.splice(0).map((store) => store.close()))
  })

  return { createPlace, open, openNew: () => open(createPlace()), startProcess }
}

/** The content in chunks of 64 KiB, as a socket delivers it. */
export async function* chunksOf(content: Buffer): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < content.length; start += 65_536) {
    yield await Promise.resolve(content.subarray(start, start + 65_536))
  }
}

export async function readAll(store: BlobStore, name: string, range?: ByteRange): Promise<Buffer> {
  return Buffer.concat((await (await store.read(name, range)).toArray()) as Buffer[])
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = []
  for await (const item of items) collected.push(item)
  return collected
}

/** The blobs by name. */
export async function listAll(store: BlobStore, prefix = ''): Promise<StoredBlob[]> {
  const blobs = await collect(store.list(prefix))
  return blobs.sort((a, b) => (a.name < b.name ? -1 : 1))
}

export async function uploadsOf(store: BlobStore): Promise<MultipartUpload[]> {
  const uploads = await collect(store.listMultipartUploads())
  return uploads.map(({ name, uploadId }) => ({ name, uploadId }))
}
