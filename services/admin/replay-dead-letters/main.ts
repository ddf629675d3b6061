// npm run replay-dead-letters [-- --list]: publishes the rows that the writer could not store to the log of events
// again.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Block } from '@sluice/event-log/block'
import { deadLetterDays } from '@sluice/event-log/dead-letters'
import { openDeadLetters, openEventLog } from '@sluice/event-log/open-event-log'
import { checkPostgresSchema } from '@sluice/postgres/migrate'
import { openPostgres, type Postgres } from '@sluice/postgres/open'
import { replayPositionStore } from '@sluice/postgres/replay-positions'
import { settledOrAfter } from '@sluice/runtime/deadline'
import { folderOf } from '@sluice/runtime/folder-of'
import { loadCommandConfig } from '@sluice/runtime/load-command-config'
import { readArguments } from '@sluice/runtime/read-arguments'
import { runCommand } from '@sluice/runtime/run-command'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { variables } from './config.ts'
import { listDeadLetters, replayDeadLetters } from './replay.ts'

const usage = 'npm run replay-dead-letters [-- --list]   (--list only prints them, a JSON object a line)'

function print(block: Block, place: { partition: number; offset: bigint }): void {
  const { letter, rows, bytes, undated } = block.headers
  const row = block.payload.subarray(0, 2_000).toString()
  console.log(JSON.stringify({ dead: `${place.partition}/${place.offset}`, ...letter, rows, bytes, undated, row }))
}

/**
 * Ends the process when standard output can't be written. A closed pipe (`… | head`) ends it with 141, the exit code of
 * SIGPIPE.
 */
function exitOnWriteError(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(141)
  console.error(`Standard output can't be written: ${error.message}`)
  process.exit(1)
}

/** The Postgres that records how far dead letters were replayed; undefined for a `file:` log. */
function openPostgresFor(logUrl: string, postgresUrl: string | undefined): Postgres | undefined {
  if (logUrl.startsWith('file:')) return undefined
  if (postgresUrl === undefined || postgresUrl.startsWith('file:')) {
    throw new Error(
      'SLUICE_POSTGRES_URL of a Postgres server is required with Kafka: Kafka forgets within days which letters were replayed.',
    )
  }
  return openPostgres(postgresUrl)
}

/** The resources that are open, to be closed in reverse order. */
const opened: { close(): Promise<void> }[] = []

async function run(): Promise<void> {
  const { list } = readArguments(
    usage,
    { options: { list: { type: 'boolean', default: false } } },
    ({ values }) => values,
  )
  const config = loadCommandConfig(variables, process.env, console.error)
  const url = config.SLUICE_LOG_URL ?? `file:${config.SLUICE_DATA_DIR}/log`
  // Opening a log that does not exist would create one.
  if (url.startsWith('file:') && !existsSync(join(folderOf(url), 'log.sqlite'))) {
    throw new Error(`There is no event log in ${folderOf(url)}. Set SLUICE_LOG_URL or SLUICE_DATA_DIR.`)
  }
  const postgres = openPostgresFor(url, config.SLUICE_POSTGRES_URL)
  if (postgres !== undefined) {
    opened.push(postgres)
    await checkPostgresSchema(postgres)
  }
  const positions = postgres && replayPositionStore(postgres)
  const log = await openEventLog(url, { logger: silentLogger })
  opened.push(log)
  const deadLetters = await openDeadLetters(url, { logger: silentLogger })
  opened.push(deadLetters)
  if (list) {
    process.stdout.on('error', exitOnWriteError)
    const { letters, rows } = await listDeadLetters({ deadLetters, positions }, print)
    // A write error ends the process here, before the list counts as complete.
    await new Promise<void>((resolve) => {
      process.stdout.write('', () => setImmediate(resolve))
    })
    console.error(`${letters} dead letters with ${rows} rows are waiting.`)
  } else {
    const { letters, rows, copies, expired, foreign } = await replayDeadLetters({ log, deadLetters, positions })
    console.log(`Replayed to the log: ${letters} dead letters with ${rows} rows.`)
    if (copies > 0) console.log(`Left out: ${copies} copies of these.`)
    if (expired > 0) {
      console.log(
        `Left out: ${expired} dead letters of events that were received more than ${deadLetterDays} days ago.`,
      )
    }
    if (foreign > 0) console.log(`Left out: ${foreign} records that are not dead letters.`)
  }
}

await runCommand(async () => {
  try {
    await run()
  } finally {
    // A failure ends the process, which prints the reason at once.
    for (const each of opened.reverse()) await settledOrAfter(each.close(), 1_000)
  }
})
