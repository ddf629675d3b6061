import type { Credential } from '@sluice/access/credential'
import type { KeyStore } from '@sluice/access/keys'
import { requireWritableSite } from '@sluice/access/require-writable-site'
import type { Sessions } from '@sluice/access/sessions'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import type { ImportType } from '@sluice/contracts/imports'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { segmentName } from '@sluice/imports/blob-names'
import { recordParser } from '@sluice/imports/parse-record'
import type { SegmentLimits } from '@sluice/imports/segments'
import type { ImportStore, NewImport } from '@sluice/postgres/imports'
import type { UploadLeaseStore } from '@sluice/postgres/uploads'
import { insufficientScope, rateLimited } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { currentCredential } from './current-credential.ts'
import { permittedImportTypes } from './permitted-types.ts'
import { ReceivedFile } from './received-file.ts'

type Imports = Pick<ImportStore, 'create' | 'find' | 'uploads'>

export interface CreateImportDeps {
  keys: Pick<KeyStore, 'find'>
  sessions: Pick<Sessions, 'find'>
  sites: Pick<SiteLookup, 'findOrRegister'>
  imports: Imports
  blobs: Pick<BlobStore, 'write' | 'remove' | 'disk'>
  clock: Pick<SynchronizedClock, 'now'>
  /** For tests; the limits of packages/imports by default. */
  limits?: SegmentLimits
}

/** An upload lapses a minute after it was renewed last. */
const renewMs = 15_000
/** A guess: the end of an upload can't be predicted. */
const retryAfterSeconds = 10

/**
 * POST /api/v1/imports: streams a file into segments in the blob store and queues its import. A refused upload leaves
 * neither blobs nor rows.
 *
 * Before the body is read, throws 429 when the key has four uploads under way, and 409 when it has the maximum number of
 * imports that have not ended. Then throws the errors of
 * `Upload.receive` and of the file (`writeSegments`). The fields may follow the file, so their errors come last: those
 * of `currentCredential`, 403 for the type, 400 for the header, and the errors of `requireWritableSite`.
 */
export function createImportRoute({ keys, sessions, sites, imports, blobs, clock, limits }: CreateImportDeps): Route {
  const { uploads } = imports
  return handle(operations.createImport, async ({ body, credential, session, receivedAt, signal, log }) => {
    const importId = newId('imp')
    const { keyId, environment } = credential
    log({ import_id: importId })
    if (!(await uploads.begin({ importId, keyId }, clock.now()))) {
      throw rateLimited(retryAfterSeconds)
    }
    const stopRenewing = renewUpload(uploads, importId, clock)
    try {
      const file = new ReceivedFile(importId, { blobs, limits, log })
      const { fields, stored } = await body.receive(file)
      const { type, site_id: siteId } = fields
      log({ site_id: siteId, type, records: stored.totalRecords })
      // Checked again, because the body may have taken hours.
      const current = await currentCredential({ keys, sessions }, { credential, session }, clock.now())
      requireType(type, current)
      recordParser(stored.layout, type)
      await requireWritableSite(sites, { credential: current, signal }, siteId)
      const { sha256 } = stored
      const segments = stored.segments.map((segment) => ({ ...segment, object: segmentName(importId, segment.n) }))
      const created = { importId, siteId, environment, type, keyId, sha256, segments, createdAt: receivedAt }
      await queue(imports, file, created, clock)
      return { job_id: importId, status: 'uploading' as const, total_records: stored.totalRecords }
    } catch (error) {
      // Otherwise the upload would count for another minute.
      await uploads.end(importId).catch(() => undefined)
      throw error
    } finally {
      stopRenewing()
    }
  })
}

/** Renews an upload until the returned function is called. No upload begins while Postgres is unavailable. */
function renewUpload(uploads: UploadLeaseStore, importId: string, clock: Pick<SynchronizedClock, 'now'>): () => void {
  const timer = setInterval(() => {
    uploads.renew(importId, clock.now()).catch(() => undefined)
  }, renewMs)
  return () => {
    clearInterval(timer)
  }
}

function requireType(type: ImportType, { scopes }: Credential): void {
  if (!permittedImportTypes(scopes).includes(type)) throw insufficientScope('admin')
}

/**
 * Stores the import. When the connection breaks, it is unknown whether Postgres has stored the import, or still will.
 * The first transaction that ends the upload decides that. While the outcome is unknown, the file is kept.
 */
async function queue(
  imports: Imports,
  file: Pick<ReceivedFile, 'keep'>,
  created: NewImport,
  clock: Pick<SynchronizedClock, 'now'>,
): Promise<void> {
  const { importId } = created
  try {
    await imports.create(created, clock.now())
  } catch (error) {
    const isStored = await retryUnknownOutcome(() => isImport(imports, importId)).catch(() => {
      file.keep()
      return false
    })
    if (!isStored) throw error
  }
}

/** Whether an import exists; if not, it can't be stored any more. */
async function isImport({ uploads, find }: Imports, importId: string): Promise<boolean> {
  if (await uploads.end(importId)) return false
  return (await find(importId, null)) !== undefined
}
