import type { IHeaders, KafkaMessage, Message } from 'kafkajs'
import { type Block, type BlockHeaders, blockVersion, type DeadLetter } from '../block.ts'
import { compressedBytesMax } from '../compression.ts'
import type { AppendedBlock } from '../consumer/claim-feed.ts'

/**
 * No block has so many rows: each row takes at least one byte, and only a block with a single row is larger than 512
 * KiB.
 */
const rowsMax = 1_000_000

/** A block as a Kafka record: no key, the payload as value, the headers as text. */
export function encodeRecord({ partition, headers, payload }: Block): Message {
  const { v, rows, bytes, undated, encoding, traceparent, letter } = headers
  const texts: Record<string, string> = { v: String(v), rows: String(rows), bytes: String(bytes) }
  if (undated) texts.undated = 'true'
  if (encoding) texts.encoding = encoding
  if (traceparent !== undefined) texts.traceparent = traceparent
  if (letter) texts.letter = JSON.stringify(letter)
  return { partition, value: payload, headers: texts }
}

/**
 * Decodes a Kafka record. Never throws, because one foreign record would then block its partition for ever. A record
 * that is not a block of Sluice gets version 0, which the reader refuses.
 */
export function decodeRecord(partition: number, { offset, timestamp, value, headers }: KafkaMessage): AppendedBlock {
  // A copy, because the value is a slice of the fetch's whole response and would keep that in memory.
  const payload = Buffer.from(value ?? [])
  const traceparent = readText(headers?.traceparent)
  const letter = readDeadLetter(headers?.letter)
  return {
    offset: BigInt(offset),
    appendedAt: Number(timestamp),
    block: {
      partition,
      headers: {
        ...readShape(headers, payload.length),
        ...(readText(headers?.undated) === 'true' && { undated: true }),
        ...(traceparent !== undefined && { traceparent }),
        ...(letter && { letter }),
      },
      payload,
    },
  }
}

/**
 * Reads the numbers that batches and metrics add up. For a record that is not a block of the present version, it
 * ignores the headers: a wrong number would remain in counters for ever.
 */
function readShape(
  headers: IHeaders | undefined,
  length: number,
): Pick<BlockHeaders, 'v' | 'rows' | 'bytes' | 'encoding'> {
  const version = readCount(headers?.v, Number.MAX_SAFE_INTEGER) ?? 0
  const rows = readCount(headers?.rows, rowsMax)
  const isCompressed = readText(headers?.encoding) === 'zstd'
  const bytes = isCompressed ? readCount(headers?.bytes, compressedBytesMax) : length
  if (version === blockVersion && rows !== undefined && bytes !== undefined) {
    return { v: version, rows, bytes, ...(isCompressed && { encoding: 'zstd' }) }
  }
  // The type allows only the present version; the reader checks the value.
  return { v: (version === blockVersion ? 0 : version) as BlockHeaders['v'], rows: 0, bytes: length }
}

/** A whole number from 1 to `max`. */
function readCount(value: IHeaders[string], max: number): number | undefined {
  const text = readText(value)
  const count = text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0
  return count >= 1 && count <= max ? count : undefined
}

function readDeadLetter(value: IHeaders[string]): DeadLetter | undefined {
  try {
    const letter = JSON.parse(readText(value) ?? '') as DeadLetter | null
    return Number.isInteger(letter?.partition) ? (letter ?? undefined) : undefined
  } catch {
    return undefined
  }
}

function readText(value: IHeaders[string]): string | undefined {
  return value === undefined || Array.isArray(value) ? undefined : value.toString()
}
