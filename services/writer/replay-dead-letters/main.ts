// npm run replay-dead-letters [-- --list]: gives the log of events back what the writer could not store.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Block } from '@sluice/contracts/block'
import { operatorText } from '@sluice/contracts/errors'
import { deadLetterUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { loadConfig } from '@sluice/runtime/config'
import { folderOf } from '@sluice/runtime/file-url'
import { replayVariables } from '../config.ts'
import { listDeadLetters, replayDeadLetters } from './replay.ts'

const usage = 'npm run replay-dead-letters [-- --list]   (--list only prints them, a JSON object a line)'
const ignore = (): void => undefined
/** What goes wrong ends the command, and is told once. */
const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

function readArguments(): { list: boolean } {
  try {
    const { values } = parseArgs({ options: { list: { type: 'boolean', default: false } } })
    return values
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${usage}`, { cause: error })
  }
}

function print(block: Block, place: { partition: number; offset: bigint }): void {
  const { letter, rows, bytes, undated } = block.headers
  const row = block.payload.subarray(0, 2_000).toString()
  console.log(JSON.stringify({ dead: `${place.partition}/${place.offset}`, ...letter, rows, bytes, undated, row }))
}

try {
  const { list } = readArguments()
  const config = loadConfig(replayVariables, process.env)
  const url = config.SLUICE_LOG_URL ?? `file:${config.SLUICE_DATA_DIR}/log`
  // Opening it would make a new one.
  if (url.startsWith('file:') && !existsSync(join(folderOf(url), 'log.sqlite'))) {
    throw new Error(`There is no event log in ${folderOf(url)}. Set SLUICE_LOG_URL or SLUICE_DATA_DIR.`)
  }
  const log = await openEventLog(url, { logger })
  try {
    const deadLetters = await openEventLog(deadLetterUrl(url), { logger })
    try {
      if (list) {
        // `… | head` has seen enough.
        process.stdout.on('error', () => process.exit(0))
        const { letters, rows } = await listDeadLetters(deadLetters, print)
        console.error(`${letters} dead letters with ${rows} rows wait.`)
      } else {
        const { letters, rows, foreign } = await replayDeadLetters({ log, deadLetters })
        console.log(`Given back to the log: ${letters} dead letters with ${rows} rows.`)
        if (foreign > 0) console.log(`Left out: ${foreign} records that are no dead letters.`)
      }
    } finally {
      await deadLetters.close()
    }
  } finally {
    await log.close()
  }
} catch (error) {
  console.error(operatorText(error))
  process.exitCode = 1
}
