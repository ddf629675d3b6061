import { sum } from '@sluice/runtime/sum'
import type { ByteRange, UploadedPart } from './blob-store.ts'
import { partBytesMin } from './part-bytes.ts'

/** The file adapter adds an id to the name and stores both in one file name. File systems allow 255 characters. */
const nameLengthMax = 200
/** A limit of S3: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html */
const partsMax = 10_000

/**
 * Throws a TypeError unless `name` is a valid name of a blob: at most 200 characters, segments of `A-Z a-z 0-9 . _ -`
 * between slashes, and no segment that begins with a dot. A valid name therefore never leaves its folder, and is never
 * one of a store's own files.
 */
export function checkName(name: string): void {
  if (!isName(name)) throw new TypeError(`${JSON.stringify(name)} is not a valid blob name`)
}

/** Whether `name` is a valid name of a blob. Files with other names do not belong to Sluice and are not listed. */
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
    throw new TypeError(`${start}-${end} is not a valid byte range`)
  }
}

/** Throws a TypeError unless `n` is a valid number of a part. */
export function checkPartNumber(n: number): void {
  if (!Number.isInteger(n) || n < 1 || n > partsMax) throw new TypeError(`${n} is not a valid part number`)
}

/**
 * Throws a TypeError unless the parts can be completed in every store. These are S3's rules; a folder does not need
 * them.
 */
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

/** The size of the blob that consists of the parts. */
export function totalBytes(parts: readonly UploadedPart[]): number {
  return sum(parts.map(({ bytes }) => bytes))
}
