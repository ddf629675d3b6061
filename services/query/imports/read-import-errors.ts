import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { BlobStore } from '@sluice/blobs/blob-store'
import type { ImportError } from '@sluice/contracts/imports'
import type { ImportSegment } from '@sluice/postgres/imports'
import { sum } from '@sluice/runtime/sum'

type Segments = readonly Pick<ImportSegment, 'failed' | 'errorsObject'>[]

/** The number of errors in all segments. */
export function countErrors(segments: Segments): number {
  return sum(segments.map(({ failed }) => failed))
}

/**
 * The errors of an import in the order of the file, after `offset` of them. Reads the blobs one after the other, from
 * the one with the first wanted error on. Memory is constant. Throws the errors of `blobs.read`.
 */
export async function* readImportErrors(
  blobs: Pick<BlobStore, 'read'>,
  segments: Segments,
  offset = 0,
): AsyncGenerator<ImportError> {
  let skipped = offset
  for (const { failed, errorsObject } of segments) {
    if (errorsObject === null) continue
    if (skipped >= failed) {
      skipped -= failed
      continue
    }
    for await (const line of linesOf(await blobs.read(errorsObject))) {
      if (skipped > 0) skipped--
      else yield JSON.parse(line) as ImportError
    }
  }
}

/** The lines of a text that is compressed with gzip. The blob is closed when the caller stops before its end. */
async function* linesOf(blob: Readable): AsyncGenerator<string> {
  const text = pipeline(blob, createGunzip(), () => undefined).setEncoding('utf8')
  let rest = ''
  for await (const chunk of text as AsyncIterable<string>) {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}
