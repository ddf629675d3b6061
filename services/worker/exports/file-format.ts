import { type Transform } from 'node:stream'
import { constants, createGzip, createZstdCompress } from 'node:zlib'
import { guardCell, quoteCell } from '@sluice/contracts/csv-cells'
import type { ExportSpec } from '@sluice/contracts/exports'
import type { ExportColumn } from '@sluice/event-store/exports/row-formats'

/** The text around the rows of a file. */
export interface FileFrame {
  head: string
  /** Between the rows of two slices. */
  separator: string
  /** The end of a file with, or without, rows. */
  tail: (hasRows: boolean) => string
}

/** The frame of a file in the format of its export. */
export function fileFrame({ format, csv_safe: isCsvSafe }: ExportSpec, columns: readonly ExportColumn[]): FileFrame {
  switch (format) {
    case 'csv': {
      const names = columns.map(({ name }) => quoteCell(isCsvSafe ? guardCell(name) : name))
      return { head: `${names.join(',')}\n`, separator: '', tail: () => '' }
    }
    case 'json':
      return { head: '[\n', separator: ',\n', tail: (hasRows) => (hasRows ? '\n]\n' : ']\n') }
    case 'ndjson':
    case 'parquet':
      return { head: '', separator: '', tail: () => '' }
  }
}

/**
 * Whether the file may be written in pieces that follow one another: gzip as members, which every reader joins. Readers
 * of `zstd` stop after the first frame (node's does, without an error), and a Parquet file has its index at the end.
 */
export function isResumable({ type, format, compression }: ExportSpec): boolean {
  return type === 'events' && format !== 'parquet' && compression !== 'zstd'
}

const zstdOptions = {
  params: { [constants.ZSTD_c_compressionLevel]: 3 },
  // Node ends the frame at a chunk that is still queued when the input ends, and then adds an empty frame. Without a
  // queue, there is no such chunk.
  writableHighWaterMark: 0,
}

/** Compresses a file, or a piece of one; undefined: not at all. */
export function compressor({ compression }: ExportSpec): Transform | undefined {
  // The levels at which the worker does not wait for the compression.
  if (compression === 'gzip') return createGzip({ level: 4 })
  if (compression === 'zstd') return createZstdCompress(zstdOptions)
  return undefined
}
