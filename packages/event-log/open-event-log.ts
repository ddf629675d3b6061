import { resolve } from 'node:path'
import { folderOf } from '@sluice/runtime/folder-of'
import type { LineLogger } from '@sluice/runtime/logger'
import { deadLetterRetentionMs } from './dead-letters.ts'
import { type KafkaLogOptions, openKafkaLog } from './kafka/kafka-log.ts'
import { parseKafkaUrl } from './kafka/url.ts'
import type { EventLog } from './log.ts'
import { openSqliteLog, type SqliteLogOptions } from './sqlite/sqlite-log.ts'

export interface OpenEventLogOptions {
  logger: LineLogger
  /** Options of a `file:` log. */
  file?: Omit<SqliteLogOptions, 'logger' | 'onEngine'>
  /** Options of a `kafka:` log. */
  kafka?: Omit<KafkaLogOptions, 'logger'>
}

/**
 * Opens the log that `SLUICE_LOG_URL` names: `kafka://…/<topic>` (see kafka/url.ts) or `file:<folder>`, relative to the
 * working directory or absolute. Kafka may be unavailable at that time. Rejects when the folder can't be used or
 * another process has locked it. Throws an Error that names every mistake in the URL.
 */
export async function openEventLog(url: string, options: OpenEventLogOptions): Promise<EventLog> {
  const { logger } = options
  if (url.startsWith('file:')) return openSqliteLog(folderOf(url), { ...options.file, logger })
  if (url.startsWith('kafka:')) return openKafkaLog(parseKafkaUrl(url), { ...options.kafka, logger })
  throw new Error('SLUICE_LOG_URL: expected kafka://host:9092/topic or file:<folder>')
}

/** Opens the log of dead letters of the log that `url` names, as `openEventLog` does. */
export function openDeadLetters(url: string, options: OpenEventLogOptions): Promise<EventLog> {
  return openEventLog(deadLetterUrl(url), {
    ...options,
    file: { ...options.file, retentionMs: deadLetterRetentionMs },
  })
}

/** URL of the backfill log: `<topic>.backfill`, or the folder `backfill` in the log's folder. */
export function backfillUrl(url: string): string {
  return siblingLogUrl(url, 'backfill')
}

/**
 * Opens the backfill log of `log`, whose URL is `url`. Both have the same number of partitions, so that copies of an
 * event are in partitions with the same number. A new folder gets the number of `log`; for topics, `npm run migrate`
 * keeps the numbers equal.
 */
export async function openBackfillLog(
  url: string,
  log: Pick<EventLog, 'partitions'>,
  options: OpenEventLogOptions,
): Promise<EventLog> {
  // Kafka may be unavailable now, and a topic already has its number of partitions.
  const file = url.startsWith('file:') && { file: { ...options.file, partitions: await log.partitions() } }
  return openEventLog(backfillUrl(url), { ...options, ...file })
}

/** URL of the log of dead letters: `<topic>.dead`, or the folder `dead` in the log's folder. */
export function deadLetterUrl(url: string): string {
  return siblingLogUrl(url, 'dead')
}

function siblingLogUrl(url: string, name: string): string {
  if (url.startsWith('file:')) return `file:${resolve(folderOf(url), name)}`
  return url.replace(/^(kafka:\/\/[^/]*\/[^?]*)/, `$1.${name}`)
}
