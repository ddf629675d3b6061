// npm run replay-dead-letters [-- --list]: publishes the rows that the writer could not store to the log of events again.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Block } from '@sluice/event-log/block'
import { deadLetterUrl, openEventLog } from '@sluice/event-log/open-event-log'
import { loadConfig } from '@sluice/runtime/config'
import { internalMessage } from '@sluice/runtime/errors'
import { folderOf } from '@sluice/runtime/file-url'
import { variables } from './config.ts'
import { listDeadLetters, replayDeadLetters } from './replay.ts'

const usage = 'npm run replay-dead-letters [-- --list]   (--list only prints them, a JSON object a line)'
const ignore = (): void => undefined
/** A failure ends the command, which prints it once. */
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
  const config = loadConfig(variables, process.env)
  const url = config.SLUICE_LOG_URL ?? `file:${config.SLUICE_DATA_DIR}/log`
  // Opening a log that does not exist would create one.
  if (url.startsWith('file:') && !existsSync(join(folderOf(url), 'log.sqlite'))) {
    throw new Error(`There is no event log in ${folderOf(url)}. Set SLUICE_LOG_URL or SLUICE_DATA_DIR.`)
  }
  const log = await openEventLog(url, { logger })
  try {
    const deadLetters = await openEventLog(deadLetterUrl(url), { logger })
    try {
      if (list) {
        // `… | head` closes the pipe early.
        process.stdout.on('error', () => process.exit(0))
        const { letters, rows } = await listDeadLetters(deadLetters, print)
        console.error(`${letters} dead letters with ${rows} rows wait.`)
      } else {
        const { letters, rows, foreign } = await replayDeadLetters({ log, deadLetters })
        console.log(`Given back to the log: ${letters} dead letters with ${rows} rows.`)
        // eslint-disable-next-line max-depth -- Two logs are open here, each with its own try and finally.
        if (foreign > 0) console.log(`Left out: ${foreign} records that are no dead letters.`)
      }
    } finally {
      await deadLetters.close()
    }
  } finally {
    await log.close()
  }
} catch (error) {
  console.error(internalMessage(error))
  process.exitCode = 1
}
