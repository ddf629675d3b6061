import type { Compression, ExportFormat, ExportSpec } from './exports.ts'

const formats: Readonly<Record<ExportFormat, { extension: string; mediaType: string }>> = {
  csv: { extension: 'csv', mediaType: 'text/csv; charset=utf-8' },
  json: { extension: 'json', mediaType: 'application/json' },
  ndjson: { extension: 'ndjson', mediaType: 'application/x-ndjson' },
  parquet: { extension: 'parquet', mediaType: 'application/vnd.apache.parquet' },
}

const compressed: Readonly<Record<Compression, { extension: string; mediaType: string }>> = {
  gzip: { extension: 'gz', mediaType: 'application/gzip' },
  zstd: { extension: 'zst', mediaType: 'application/zstd' },
}

/** Media types that the file of an export may have. */
export const exportMediaTypes = [...Object.values(formats), ...Object.values(compressed)].map(({ mediaType }) =>
  mediaType.replace(/;.*/, ''),
)

/**
 * The media type of an export's file. A compressed file has the media type of its compression. With `Content-Encoding`
 * instead, clients would decompress the file, and ranges would not refer to the bytes that the client keeps.
 */
export function exportMediaType({ format, compression }: Pick<ExportSpec, 'format' | 'compression'>): string {
  return (compression === undefined ? formats[format] : compressed[compression]).mediaType
}

/** Bytes of UTF-8 that a file's name may have before its extensions: file systems allow 255 in all. */
const stemBytesMax = 200

/**
 * The name of an export's file: the name of the export without characters that are special in paths on any system, and
 * the extensions of its format and compression. `occurrence` (Unix ms) distinguishes the runs of a schedule.
 */
export function exportFileName(
  name: string,
  { format, compression }: Pick<ExportSpec, 'format' | 'compression'>,
  occurrence?: number,
): string {
  const time = occurrence === undefined ? '' : ` ${new Date(occurrence).toISOString().slice(0, 16).replace(':', '.')}Z`
  const extensions = [
    formats[format].extension,
    ...(compression === undefined ? [] : [compressed[compression].extension]),
  ]
  return `${toStem(name)}${time}.${extensions.join('.')}`
}

function toStem(name: string): string {
  const stem = firstBytes(name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}/\\:*?"<>|]/gu, '_'), stemBytesMax)
    .trim()
    .replace(/^\./, '_')
  return stem === '' ? 'export' : stem
}

/** The first characters that have at most `max` bytes in all. */
function firstBytes(text: string, max: number): string {
  const encoder = new TextEncoder()
  let bytes = 0
  let end = 0
  for (const character of text) {
    bytes += encoder.encode(character).length
    if (bytes > max) break
    end += character.length
  }
  return text.slice(0, end)
}
