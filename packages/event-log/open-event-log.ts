import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openKafkaLog, type KafkaLogOptions } from './kafka.ts'
import { parseKafkaUrl } from './kafka-url.ts'
import type { EventLog } from './log.ts'
import type { EventLogLogger } from './logger.ts'
import { openSqliteLog, type SqliteLogOptions } from './sqlite.ts'

export interface OpenEventLogOptions {
  logger: EventLogLogger
  /** For `file:` alone. */
  file?: Omit<SqliteLogOptions, 'logger' | 'onEngine'>
  /** For `kafka:` alone. */
  kafka?: Omit<KafkaLogOptions, 'logger'>
}

/**
 * Opens the log that `SLUICE_LOG_URL` names: `kafka://…/<topic>` (see kafka-url.ts) or `file:<folder>`, relative to the
 * working directory or absolute. Kafka may be away at that time; a folder that can't be used, or that another process
 * holds, rejects. Throws an Error that names every mistake in the URL.
 */
export async function openEventLog(url: string, options: OpenEventLogOptions): Promise<EventLog> {
  const { logger } = options
  if (url.startsWith('file:')) return openSqliteLog(folderOf(url), { ...options.file, logger })
  if (url.startsWith('kafka:')) return openKafkaLog(parseKafkaUrl(url), { ...options.kafka, logger })
  throw new Error('SLUICE_LOG_URL: expected kafka://host:9092/topic or file:<folder>')
}

/** The log of what could not be written: `<topic>.dead`, or the folder `dead` in the log's own. */
export function deadLetterUrl(url: string): string {
  if (url.startsWith('file:')) return `file:${resolve(folderOf(url), 'dead')}`
  return url.replace(/^(kafka:\/\/[^/]*\/[^?]*)/, '$1.dead')
}

function folderOf(url: string): string {
  const path = url.startsWith('file://') ? fileURLToPath(url) : url.slice('file:'.length)
  if (path === '') throw new Error('SLUICE_LOG_URL: file: names no folder')
  return resolve(path)
}
