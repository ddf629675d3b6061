import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import type { AcceptedImport, ImportType } from '@sluice/contracts/imports'
import type { Client } from '../client.ts'

export interface UploadOptions {
  path: string
  type: ImportType
  siteId: string
  /** Called with the number of bytes that are sent. */
  onProgress: (bytes: number) => void
}

/** Uploads a file, which is read while it is sent. A repeated upload of the same file stores nothing twice. */
export async function uploadFile(
  client: Client,
  { path, type, siteId, onProgress }: UploadOptions,
): Promise<AcceptedImport> {
  const boundary = `sluice-${randomUUID()}`
  const part = (name: string, value: string): string =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
  // Only the content says what a file is: its name is no more than a label.
  const name = basename(path).replaceAll(/[^\w.-]/g, '_')
  const form = async function* (): AsyncGenerator<Buffer> {
    let sent = 0
    yield Buffer.from(
      `${part('type', type)}${part('site_id', siteId)}--${boundary}\r\n` +
        `Content-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`,
    )
    for await (const chunk of createReadStream(path, { highWaterMark: 256 * 1024 })) {
      const bytes = chunk as Buffer
      yield bytes
      sent += bytes.length
      onProgress(sent)
    }
    yield Buffer.from(`\r\n--${boundary}--\r\n`)
  }
  const { data } = await client.request<AcceptedImport>('POST', '/api/v1/imports', {
    body: () => Readable.toWeb(Readable.from(form())),
    headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
    timeoutMs: 0,
  })
  return data
}
