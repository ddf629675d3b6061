import type { IHeaders, KafkaMessage, Message } from 'kafkajs'
import type { Block, BlockHeaders, DeadLetter } from '../block.ts'
import type { LogEntry } from '../consumer/claim-feed.ts'

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
 * Decodes a Kafka record. Never throws, or one foreign record would block its partition for ever: a record that is no
 * block of Sluice gets version 0, which the reader refuses.
 */
export function decodeRecord(partition: number, { offset, timestamp, value, headers }: KafkaMessage): LogEntry {
  // A copy: the value is a part of the fetch's whole response, which it would keep in memory.
  const payload = Buffer.from(value ?? [])
  const version = readCount(headers?.v) ?? 0
  const isCompressed = readText(headers?.encoding) === 'zstd'
  const traceparent = readText(headers?.traceparent)
  const letter = readDeadLetter(headers?.letter)
  return {
    offset: BigInt(offset),
    appendedAt: Number(timestamp),
    block: {
      partition,
      headers: {
        // The type allows only the present version; the reader checks the value.
        v: version as BlockHeaders['v'],
        rows: readCount(headers?.rows) ?? 0,
        bytes: isCompressed ? (readCount(headers?.bytes) ?? 0) : payload.length,
        ...(isCompressed && { encoding: 'zstd' }),
        ...(readText(headers?.undated) === 'true' && { undated: true }),
        ...(traceparent !== undefined && { traceparent }),
        ...(letter && { letter }),
      },
      payload,
    },
  }
}

function readCount(value: IHeaders[string]): number | undefined {
  const count = readText(value)
  return count !== undefined && /^\d{1,15}$/.test(count) ? Number(count) : undefined
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
