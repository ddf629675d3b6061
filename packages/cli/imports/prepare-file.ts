import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { isAbsent } from '@sluice/contracts/absent-field'
import type { ImportError } from '@sluice/contracts/imports'
import { withMembers } from '../complete-event.ts'
import { Failure } from '../failure.ts'
import {
  type Conversion,
  type ConvertedEvent,
  type Converter,
  RecordError,
  type SourceRecord,
} from './converted-event.ts'
import { plausible } from './plausible.ts'
import { posthog } from './posthog.ts'
import { hashOfText, kindOfFile, type PlacedRecord, readRecords } from './source-file.ts'
import { umami } from './umami.ts'

/** The products whose exports are understood. */
export const converters = { plausible, umami, posthog } as const satisfies Record<string, Converter>

export type Product = keyof typeof converters

/** A file as it is uploaded. */
export interface PreparedFile {
  path: string
  /** Whether nothing of the original was converted, so that there is nothing to upload. */
  isEmpty: boolean
  /** Converts an error of the server, which names the line of this file, into one with the line of the original. */
  inOriginal(error: ImportError): ImportError
  /** Records that could not be converted; they are not in the file. */
  problems: ImportError[]
}

/** Where and until when a file is rewritten. */
interface Target {
  folder: string
  signal: AbortSignal
}

/** A file that is uploaded unchanged. */
export function unconverted(path: string): PreparedFile {
  return { path, isEmpty: false, inOriginal: (error) => error, problems: [] }
}

/** A line writer that keeps the lines of the original, so that errors of the server name the right ones. */
interface LineWriter {
  write(line: number, texts: Iterable<string>): Promise<void>
  lineOf(line: number): number
  /** Whether nothing was written. */
  isEmpty(): boolean
  end(): Promise<void>
}

/** Ids must fit in 64 characters beside the product's name, the line, and the place in a total. */
const hashLength = 24

/**
 * Converts an export of another product into NDJSON below `folder`. The same export becomes the same events: those
 * without an id of their own get one from the hash of its text, the line, and the place in a total. Rejects when
 * `signal` aborts.
 */
export async function convertFile(path: string, product: Product, { folder, signal }: Target): Promise<PreparedFile> {
  const kind = await readableKind(path)
  const hash = (await hashOfText(path, signal)).slice(0, hashLength)
  let convert: ((record: SourceRecord) => Conversion) | undefined
  return rewrite(path, { kind, folder, signal }, ({ line, idLine = line, ...placed }) => {
    if ('error' in placed) throw new RecordError(placed.error)
    convert ??= converters[product].choose(Object.keys(placed.record))
    return linesOf(convert(placed.record), `${product}-${hash}-${idLine}`)
  })
}

/** Gives the records of NDJSON that have no timestamp one. Rejects when `signal` aborts. */
export async function stampFile(path: string, timestamp: number, { folder, signal }: Target): Promise<PreparedFile> {
  const kind = await readableKind(path)
  if (kind === 'csv') throw new Failure('--timestamp is for NDJSON: add a column timestamp_ms to the CSV file instead.')
  return rewrite(path, { kind, folder, signal }, (placed) => {
    if ('error' in placed) throw new RecordError(placed.error)
    const { record, text = '' } = placed
    const isDated = !isAbsent(record.timestamp) || !isAbsent(record.timestamp_ms)
    return [isDated ? text : withMembers(text.trim(), { timestamp_ms: timestamp })]
  })
}

async function readableKind(path: string): Promise<'csv' | 'ndjson'> {
  const kind = await kindOfFile(path)
  if (kind === 'json list') {
    throw new Failure(`${path} is one JSON list: write an object a line, for example by "jq -c '.[]' ${path}".`)
  }
  return kind
}

async function rewrite(
  path: string,
  { kind, folder, signal }: Target & { kind: 'csv' | 'ndjson' },
  convert: (record: PlacedRecord) => Iterable<string>,
): Promise<PreparedFile> {
  const target = join(folder, 'events.ndjson.gz')
  const lines = openLineWriter(target)
  const problems: ImportError[] = []
  try {
    for await (const record of readRecords(path, kind)) {
      signal.throwIfAborted()
      try {
        await lines.write(record.line, convert(record))
      } catch (error) {
        if (!(error instanceof RecordError)) throw error
        problems.push({ line: record.line, message: error.message })
      }
    }
  } finally {
    await lines.end()
  }
  // Without the numbers of records: they count the records of the file, which may hold more or fewer than the original.
  const inOriginal = ({ record: _, ...error }: ImportError) => ({ ...error, line: lines.lineOf(error.line) })
  return { path: target, isEmpty: lines.isEmpty(), inOriginal, problems }
}

function* linesOf(conversion: Conversion, id: string): Generator<string> {
  if (conversion === undefined) return
  if (!('count' in conversion)) {
    yield lineOf({ ...conversion, event_id: conversion.event_id ?? id })
    return
  }
  const { event, count } = conversion
  // A millisecond apart, so that lists of events have an order.
  for (let at = 0; at < count; at++) {
    yield lineOf({ ...event, timestamp_ms: event.timestamp_ms + at, event_id: `${id}-${at}` })
  }
}

function lineOf(event: ConvertedEvent): string {
  return JSON.stringify(event)
}

function openLineWriter(path: string): LineWriter {
  const packed = createGzip({ level: 1 })
  const stored = pipeline(packed, createWriteStream(path, { mode: 0o600 }))
  // A failure is reported by end().
  stored.catch(() => undefined)
  let written = 0
  /**
   * Lines that differ from those of the original: the record at the line `from` of the file is at `line` in the
   * original.
   */
  const moved: { from: number; line: number }[] = []
  const put = async (text: string): Promise<void> => {
    if (packed.write(text)) return
    // No race with `stored`, because each race would add a reaction to that promise for good. A failure during the wait
    // destroys `packed`, which ends the wait. After a failure, `packed` emits nothing more, so `stored` is awaited.
    await (packed.destroyed ? stored : once(packed, 'drain'))
  }
  return {
    write: async (line, texts) => {
      let first: number | undefined
      for (const text of texts) {
        if (first === undefined && written < line - 1) {
          await put('\n'.repeat(line - 1 - written))
          written = line - 1
        }
        await put(`${text}\n`)
        written++
        first ??= written
      }
      // After the first record with another line, every record is noted.
      if (first !== undefined && (first !== line || written > first || moved.length > 0))
        moved.push({ from: first, line })
    },
    lineOf: (line) => {
      // Binary search for the last entry at or before the line: a file may have a million entries and errors.
      let [low, high] = [0, moved.length]
      while (low < high) {
        const middle = Math.floor((low + high) / 2)
        if ((moved[middle]?.from ?? 0) <= line) low = middle + 1
        else high = middle
      }
      return moved[low - 1]?.line ?? line
    },
    isEmpty: () => written === 0,
    end: async () => {
      packed.end()
      await stored
    },
  }
}
