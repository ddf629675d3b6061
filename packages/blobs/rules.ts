import { sum } from '@sluice/runtime/sum'
import type { ByteRange, UploadedPart } from './blob-store.ts'

/** The file adapter adds an id and keeps both in one file name, of which file systems allow 255 characters. */
const nameLengthMax = 200
/** Limits of S3: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html */
const partsMax = 10_000
const partBytesMin = 5 * 1024 * 1024

/**
 * Throws a TypeError unless `name` can be a blob's: segments of `A-Z a-z 0-9 . _ -` between slashes, of which none
 * begins with a dot, at most 200 characters. So no name leaves its folder or is one of a store's own files.
 */
export function checkName(name: string): void {
  if (!isName(name)) throw new TypeError(`${JSON.stringify(name)} is no name of a blob`)
}

/** Whether `name` can be a blob's. What is stored beside blobs under other names is not Sluice's, and is not listed. */
export function isName(name: string): boolean {
  return name.length <= nameLengthMax && /^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(name) && !name.includes('..')
}

/** Throws a TypeError unless `prefix` can be the beginning of a name. */
export function checkPrefix(prefix: string): void {
  if (prefix !== '') checkName(prefix.endsWith('/') ? prefix.slice(0, -1) : prefix)
}

/** Throws a TypeError unless the range has at least one byte. */
export function checkRange(range: ByteRange | undefined): void {
  if (range === undefined) return
  const { start, end } = range
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || end < start) {
    throw new TypeError(`${start}-${end} is no range of bytes`)
  }
}

/** Throws a TypeError unless `n` may be the number of a part. */
export function checkPartNumber(n: number): void {
  if (!Number.isInteger(n) || n < 1 || n > partsMax) throw new TypeError(`${n} is no number of a part`)
}

/** Throws a TypeError unless the parts can be completed in every store: S3's rules, which a folder does not need. */
export function checkParts(parts: readonly UploadedPart[]): void {
  if (parts.length === 0) throw new TypeError('an upload needs a part')
  let previous: UploadedPart | undefined
  for (const part of parts) {
    checkPartNumber(part.n)
    if (previous && previous.n >= part.n) throw new TypeError(`part ${part.n} comes after part ${previous.n}`)
    if (previous && previous.bytes < partBytesMin) throw new TypeError(`part ${previous.n} has less than 5 MiB`)
    previous = part
  }
}

/** The size of the blob that the parts become. */
export function totalBytes(parts: readonly UploadedPart[]): number {
  return sum(parts.map(({ bytes }) => bytes))
}
