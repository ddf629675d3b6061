// Uploads of imports to a query service, and what they leave behind.
import { type Dirent, existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import type { ImportResource } from '@sluice/contracts/imports'
import { errorCode } from '@sluice/runtime/errors'
import type { TestQuery } from './query.ts'
import { type Envelope, request } from './test-service.ts'

export interface UploadParts {
  file?: string | Uint8Array<ArrayBuffer>
  fields?: Readonly<Record<string, string>>
  key?: string
  /** The service, by default that of the query. */
  url?: string
}

const boundary = 'the-boundary'

/** A part of a form, as bytes. */
export const part = (headers: string, content: string | Uint8Array = ''): Buffer =>
  Buffer.concat([
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data${headers}\r\n\r\n`),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ])

export const fieldPart = (name: string, value: string): Buffer => part(`; name="${name}"`, value)

export const filePart = (content: string | Uint8Array, name = 'file'): Buffer =>
  part(`; name="${name}"; filename="events.csv"\r\nContent-Type: text/csv`, content)

export const formEnd = Buffer.from(`--${boundary}--\r\n`)

export const formType = `multipart/form-data; boundary=${boundary}`

interface Answer {
  status: number
  headers: Headers
  body: Envelope
}

/** Sends a form of these parts. */
export function uploadForm(
  query: TestQuery,
  parts: readonly Buffer[],
  { key = query.admin, url = query.service.url }: Pick<UploadParts, 'key' | 'url'> = {},
): Promise<Answer> {
  return request(`${url}/api/v1/imports`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': formType },
    body: Buffer.concat(parts),
  })
}

/** Sends a file of events of the site `shop`, unless said otherwise, with the fields before the file. */
export function upload(query: TestQuery, { file, fields = {}, ...rest }: UploadParts): Promise<Answer> {
  const parts = Object.entries({ type: 'events', site_id: 'shop', ...fields }).map(([name, value]) =>
    fieldPart(name, value),
  )
  return uploadForm(query, [...parts, ...(file === undefined ? [] : [filePart(file)]), formEnd], rest)
}

/** Blobs, files of the store's folder, temporary ones included, and rows. */
export async function countLeftovers({ postgres, blobs, blobsFolder }: TestQuery) {
  const names: string[] = []
  for await (const { name } of blobs.list('')) names.push(name)
  const entries = await entriesOf(blobsFolder)
  const countRows = async (table: 'imports' | 'import_segments' | 'uploads') => {
    const { count } = await postgres.db
      .selectFrom(table)
      .select((select) => select.fn.countAll<string>().as('count'))
      .executeTakeFirstOrThrow()
    return Number(count)
  }
  return {
    blobs: names.length,
    files: entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.')).length,
    imports: await countRows('imports'),
    segments: await countRows('import_segments'),
    uploads: await countRows('uploads'),
  }
}

/** All entries of a folder. It is read again when a folder in it, such as that of an upload, is removed meanwhile. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { recursive: true, withFileTypes: true })
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || !existsSync(folder)) throw error
    return entriesOf(folder)
  }
}

export const nothing = { blobs: 0, files: 0, imports: 0, segments: 0, uploads: 0 }

export async function readImport(query: TestQuery, jobId: string): Promise<ImportResource> {
  return (await query.request(`/api/v1/imports/${jobId}`)).body.data as ImportResource
}
