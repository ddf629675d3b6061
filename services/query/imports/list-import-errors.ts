import { once } from 'node:events'
import { Readable } from 'node:stream'
import { operations } from '@sluice/api/operations'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { guardCell, quoteCell } from '@sluice/contracts/csv-cells'
import { type ImportError, importLimits } from '@sluice/contracts/imports'
import { dayMs } from '@sluice/contracts/time-units'
import { handle } from '@sluice/http/handle'
import { prefersType } from '@sluice/http/prefers-type'
import type { FileResult, Route } from '@sluice/http/route'
import type { ImportSegment, ImportStore } from '@sluice/postgres/imports'
import { AppError } from '@sluice/runtime/errors'
import { countErrors, readImportErrors } from './read-import-errors.ts'
import { requireVisibleImport } from './require-visible-import.ts'

const errorRetentionMs = importLimits.errorRetentionDays * dayMs

/**
 * GET /api/v1/imports/:import_id/errors: the records that failed, by their line and number: a page, or all of them with
 * `Accept: text/csv`. Throws 404 for a missing or hidden import, 410 when its errors were removed because it ended
 * long ago.
 */
export function listImportErrorsRoute({
  imports,
  blobs,
}: {
  imports: Pick<ImportStore, 'find' | 'segments'>
  blobs: Pick<BlobStore, 'read'>
}): Route {
  return handle(operations.listImportErrors, async ({ params, query, accept, credential, receivedAt, log }) => {
    const { import_id: importId } = params
    log({ import_id: importId })
    const { finishedAt } = await requireVisibleImport(imports, importId, credential)
    if (finishedAt !== null && finishedAt < receivedAt - errorRetentionMs) throw errorsGone()
    const segments = await imports.segments(importId)
    if (prefersType(accept, 'text/csv')) return { file: toCsvFile(importId, segments, blobs) }
    const errors: ImportError[] = []
    for await (const error of readImportErrors(blobs, segments, query.offset)) {
      if (errors.push(error) === query.limit) break
    }
    return { data: { errors, total: countErrors(segments), ...query } }
  })
}

function errorsGone(): AppError {
  return new AppError('gone', {
    message: `The errors of an import can be read for ${importLimits.errorRetentionDays} days after its end`,
  })
}

function toCsvFile(importId: string, segments: readonly ImportSegment[], blobs: Pick<BlobStore, 'read'>): FileResult {
  return {
    contentType: 'text/csv; charset=utf-8',
    fileName: `${importId}-errors.csv`,
    open: async () => {
      const lines = Readable.from(csvLines(readImportErrors(blobs, segments)))
      await once(lines, 'readable')
      return lines
    },
  }
}

/** The header comes with the first error: when that can't be read, nothing is sent yet, and the response has a status. */
async function* csvLines(errors: AsyncIterable<ImportError>): AsyncGenerator<string> {
  let header = 'line,field,message,record\r\n'
  for await (const { line, record = '', field = '', message } of errors) {
    yield `${header}${line},${toCell(field)},${toCell(message)},${record}\r\n`
    header = ''
  }
  if (header !== '') yield header
}

/** Names of fields come from the file, and a spreadsheet must not run them as formulas. */
function toCell(text: string): string {
  return quoteCell(guardCell(text))
}
