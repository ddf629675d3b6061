import { createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { type Command, Option } from 'commander'
import {
  type ImportError,
  importLimits,
  type ImportResource,
  type ImportType,
  importTypes,
} from '@sluice/contracts/imports'
import { type ListOf, pageDefaults } from '@sluice/contracts/paging'
import { allowsSite, grants } from '@sluice/contracts/scopes'
import { type Client, Refusal } from '../client.ts'
import { ConnectionFailure } from '../connection-failure.ts'
import type { Context } from '../context.ts'
import { examples } from '../examples.ts'
import { exitCodes, Failure, usageFailure } from '../failure.ts'
import {
  converters,
  convertFile,
  type PreparedFile,
  type Product,
  stampFile,
  unconverted,
} from '../imports/prepare-file.ts'
import { kindOfFile, sizeOfFile } from '../imports/source-file.ts'
import { uploadFile } from '../imports/upload-file.ts'
import { openConnection } from '../open-connection.ts'
import { csvLine } from '../output/csv.ts'
import { countOf, formatBytes, formatCount } from '../output/format.ts'
import { openProgress } from '../output/progress.ts'
import { safeJson, safeText } from '../output/safe-text.ts'
import type { Terminal } from '../output/terminal.ts'
import { parseTime } from '../parse-options.ts'
import { addConnectionOptions, addSiteOption, refuseKeyOnInput, requireSite, type SiteOptions } from '../settings.ts'
import { writeOutput } from '../write-output.ts'

interface ImportOptions extends SiteOptions {
  type: ImportType
  from?: Product
  timestamp?: number
  wait: boolean
  job?: string
  errorsFile?: string
  json?: boolean
}

const pollMsMin = 100
const pollMsMax = 1_000
const shownErrorsMax = 20
/** Errors of the server that are held for --json and --errors-file. */
const heldErrorsMax = 100_000

/** Adds the command `sluice import`, which uploads a file and follows its import. */
export function addImport(program: Command, context: Context): void {
  const command = program
    .command('import')
    .summary('import a file of events or users')
    .description(
      'Uploads CSV, JSON or NDJSON, also compressed by gzip, waits until statistics count its records, and names the lines ' +
        'that could not be stored. The same content imported again stores nothing twice: events without an event_id get ' +
        'one from the content and their place in it.',
    )
    .argument('[file]', 'a file, or - for standard input')
  addSiteOption(command)
    .addOption(new Option('--type <type>', 'what the records are').choices(importTypes).default('events'))
    .addOption(new Option('--from <product>', 'the file is an export of this product').choices(Object.keys(converters)))
    .addOption(
      new Option('-t, --timestamp <time>', 'the time of events without one, in NDJSON (UTC without an offset)')
        .argParser(parseTime)
        .conflicts('from'),
    )
    .option('--no-wait', 'end after the upload, and print the job_id')
    .addOption(
      new Option('--job <job_id>', 'wait for an import that was uploaded before, instead of a file').conflicts([
        'wait',
        'type',
        'from',
        'timestamp',
      ]),
    )
    .option('--errors-file <file>', 'write the errors of all lines to a CSV file')
    .option('--json', 'print the record of the import with its errors as JSON')
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([
        ['sluice import events.csv --site shop', 'a file with the columns event_type and timestamp_ms'],
        ['cat logs/*.ndjson.gz | sluice import - --site shop', 'NDJSON from other programs'],
        [
          'sluice import --from plausible imported_pages_20240101_20241231.csv --site shop',
          'the history of another product',
        ],
      ]),
    )
    .action((file: string | undefined, options: ImportOptions) => runImport(context, file, options))
}

async function runImport(context: Context, file: string | undefined, options: ImportOptions): Promise<void> {
  // An empty one is a variable of a script that is not set.
  if (file === '' || options.job === '' || (file === undefined) === (options.job === undefined)) {
    throw usageFailure('Give one of a file, - for standard input, and --job <job_id>.')
  }
  if (options.type === 'users' && (options.from !== undefined || options.timestamp !== undefined)) {
    throw usageFailure('--from and --timestamp are for events: leave them out with --type users.')
  }
  if (file === '-') refuseKeyOnInput(options)
  if (options.errorsFile !== undefined) await requireWritable(options.errorsFile, file)
  const { settings, client } = await openConnection(context, options, { retries: 'long' })
  if (file === undefined) {
    await follow(context, client, { jobId: options.job ?? '', prepared: unconverted(''), options })
    return
  }
  const siteId = requireSite(settings)
  if (file !== '-') await sizeOfFile(file)
  // Checked before the upload, because a large upload that is refused in its middle ends without an answer.
  await checkRights(client, siteId, options.type)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-import-'))
  try {
    const prepared = await prepare(context, file, { folder, options })
    const { problems } = prepared
    if (prepared.isEmpty) {
      await reportProblems(context, prepared, options)
      if (problems.length > 0) throw notStored(problems.length)
      throw new Failure(`${file === '-' ? 'Standard input' : file} holds no events to import.`)
    }
    const jobId = await upload(context, client, { prepared, siteId, options }).catch(async (error: unknown) => {
      await reportProblems(context, prepared, options)
      throw error
    })
    if (options.wait) {
      await follow(context, client, { jobId, prepared, options })
      return
    }
    context.terminal.print(options.json ? safeJson({ job_id: jobId }) : jobId)
    await reportProblems(context, prepared, options)
    if (problems.length > 0) throw notStored(problems.length)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Reports the records that could not be converted, where no import reports them together with its own. */
async function reportProblems(
  { terminal }: Context,
  { problems }: PreparedFile,
  options: ImportOptions,
): Promise<void> {
  if (options.errorsFile !== undefined) await writeErrors(options.errorsFile, problems)
  printErrors(terminal, problems.slice(0, shownErrorsMax), { failed: problems.length, options })
}

async function checkRights(client: Client, siteId: string, type: ImportType): Promise<void> {
  const { scopes, site_ids: siteIds } = await client.session()
  const required = type === 'users' ? 'admin' : 'events:write'
  if (!grants(scopes, required)) {
    throw new Failure(`The API key lacks the scope ${required}: use a key that has it.`, exitCodes.authentication)
  }
  if (!allowsSite(siteIds, siteId)) {
    throw new Failure(
      `The API key is bound to other sites than ${siteId}: use a key of this site, or name one of ${siteIds?.join(', ') ?? ''}.`,
      exitCodes.authentication,
    )
  }
}

/** The file to upload: the given one, standard input as a file, or what it was converted to. */
async function prepare(
  { input, terminal, signal }: Context,
  file: string,
  { folder, options }: { folder: string; options: ImportOptions },
): Promise<PreparedFile> {
  let path = file
  if (file === '-') {
    // Standard input is kept in a file until the end, because ids come from the whole content, and a repeated upload
    // reads it again.
    path = join(folder, 'standard-input')
    await pipeline(input, createWriteStream(path, { mode: 0o600 }), { signal })
  }
  const named = (error: unknown): never => {
    throw error instanceof Failure && file === '-'
      ? // A command that the message advises reads standard input, too.
        new Failure(error.message.replace(` ${path}"`, '"').replaceAll(path, 'Standard input'), error.exitCode)
      : error
  }
  await kindOfFile(path).catch(named)
  const progress = openProgress(terminal)
  if (options.from !== undefined || options.timestamp !== undefined) progress.update(0, 0, 'Converting the file')
  const prepared =
    options.from !== undefined
      ? await convertFile(path, options.from, { folder, signal }).catch(named)
      : options.timestamp !== undefined
        ? await stampFile(path, options.timestamp, { folder, signal }).catch(named)
        : unconverted(path)
  progress.end()
  return prepared
}

async function upload(
  { terminal }: Context,
  client: Client,
  { prepared, siteId, options }: { prepared: PreparedFile; siteId: string; options: ImportOptions },
): Promise<string> {
  const size = await sizeOfFile(prepared.path)
  if (size > importLimits.fileBytesMax) {
    throw new Failure(`The file has ${formatBytes(size)}, and an import takes 2 GiB: compress it by gzip, or split it.`)
  }
  const progress = openProgress(terminal)
  try {
    const { job_id: jobId } = await uploadFile(client, {
      path: prepared.path,
      type: options.type,
      siteId,
      onProgress: (bytes) => {
        progress.update(bytes, size, `Uploading ${formatBytes(bytes)} of ${formatBytes(size)}`)
      },
    })
    return jobId
  } finally {
    progress.end()
  }
}

/** Waits for the end of an import and reports it. Throws a Failure when records, or all of it, failed. */
async function follow(
  context: Context,
  client: Client,
  { jobId, prepared, options }: { jobId: string; prepared: PreparedFile; options: ImportOptions },
): Promise<void> {
  const { terminal, signal } = context
  const job = await waitForEnd(context, client, jobId).catch(async (error: unknown) => {
    // A later `sluice import --job` does not know these problems.
    await reportProblems(context, prepared, options)
    // A 429, a 5xx or a lost connection says nothing about the import; after any other refusal, waiting would be
    // refused, too.
    if (signal.aborted || error instanceof ConnectionFailure || (error instanceof Refusal && error.status >= 429))
      terminal.note(`The import goes on without this command: "sluice import --job ${jobId}" waits for it.`)
    throw error
  })
  const failed = job.failed_records + prepared.problems.length
  const isComplete = options.json === true || options.errorsFile !== undefined
  const errors =
    failed === 0 ? [] : await readErrors(client, jobId, { prepared, max: isComplete ? heldErrorsMax : shownErrorsMax })
  if (options.errorsFile !== undefined) await writeErrors(options.errorsFile, errors)
  const noun = job.type === 'users' ? 'user' : 'event'
  const processed = job.processed_records + prepared.problems.length
  const total = job.total_records + prepared.problems.length
  if (options.json) terminal.print(safeJson({ ...job, errors }, 2))
  else {
    const isCut = job.failed_records > heldErrorsMax
    printErrors(terminal, errors.slice(0, shownErrorsMax), { failed, isCut, options })
    // The server does not say how many are new: a record that was stored before is processed like any other.
    terminal.print(
      `${jobId} ${job.status}: ${formatCount(processed)} of ${countOf(total, noun)} processed, ${formatCount(failed)} failed.`,
    )
  }
  if (job.status === 'failed') throw new Failure(`The import failed: ${safeText(job.error ?? 'no reason given')}`)
  if (job.status === 'cancelled') throw new Failure('The import was cancelled; what it had stored stays.')
  if (failed > 0) {
    throw notStored(failed)
  }
}

function notStored(records: number): Failure {
  // A changed file would be stored once more: events without an event_id get theirs from the file's content.
  const advice = 'put the corrected records, and only these, into a new file and import that.'
  return new Failure(`${countOf(records, 'record')} could not be stored: ${advice}`)
}

async function waitForEnd({ terminal, signal }: Context, client: Client, jobId: string): Promise<ImportResource> {
  const progress = openProgress(terminal)
  try {
    for (let pollMs = pollMsMin; ; pollMs = Math.min(pollMsMax, pollMs * 1.5)) {
      const { data } = await client.request<ImportResource>('GET', `/api/v1/imports/${encodeURIComponent(jobId)}`)
      if (['completed', 'failed', 'cancelled'].includes(data.status)) return data
      const { processed_records: processed, total_records: total } = data
      progress.update(processed, total, `Storing ${formatCount(processed)} of ${countOf(total, 'record')}`)
      await delay(pollMs, undefined, { signal })
    }
  } finally {
    progress.end()
  }
}

/** Up to `max` of the records that failed here or at the server, in the order of the original's lines. */
async function readErrors(
  client: Client,
  jobId: string,
  { prepared, max }: { prepared: PreparedFile; max: number },
): Promise<ImportError[]> {
  const errors: ImportError[] = []
  for (;;) {
    const { data } = await client.request<ListOf<'errors', ImportError>>(
      'GET',
      `/api/v1/imports/${encodeURIComponent(jobId)}/errors`,
      { query: { limit: Math.min(max, pageDefaults.limitMax), offset: errors.length } },
    )
    errors.push(...data.errors.map((error) => prepared.inOriginal(error)))
    if (data.errors.length === 0 || errors.length >= Math.min(max, data.total)) break
  }
  return [...errors, ...prepared.problems].toSorted((a, b) => a.line - b.line)
}

function printErrors(
  terminal: Terminal,
  errors: readonly ImportError[],
  { failed, isCut = false, options }: { failed: number; isCut?: boolean; options: ImportOptions },
): void {
  for (const { line, record, message } of errors) {
    const place = record === undefined ? `Line ${line}` : `Line ${line}, record ${record}`
    terminal.note(`${place}: ${safeText(message)}`)
  }
  const rest = failed - errors.length
  if (rest > 0) {
    const where = options.errorsFile ?? 'a file that you name with --errors-file'
    const held = isCut ? `the first ${formatCount(heldErrorsMax)} of the server` : 'all of them'
    terminal.note(`… and ${countOf(rest, 'further line')}; ${held} are in ${where}.`)
  }
}

/**
 * Throws a Failure when the file of errors is the file to import, or can't be written. Without this check, the user
 * would learn that only after the import, which may take an hour. An existing file keeps its content until the import
 * has ended.
 */
async function requireWritable(errorsFile: string, input: string | undefined): Promise<void> {
  if (input !== undefined && (await isSameFile(errorsFile, input))) {
    throw usageFailure('--errors-file names the file to import, which it would overwrite: name another one.')
  }
  await writeOutput(errorsFile, '', 'a')
}

/** Whether two paths lead to one file, also by links. */
async function isSameFile(a: string, b: string): Promise<boolean> {
  const [one, other] = await Promise.all([a, b].map((path) => stat(path).catch(() => undefined)))
  return one !== undefined && one.dev === other?.dev && one.ino === other.ino
}

async function writeErrors(file: string, errors: readonly ImportError[]): Promise<void> {
  const lines = [
    csvLine(['line', 'field', 'message', 'record']),
    ...errors.map(({ line, field = '', message, record = '' }) => csvLine([line, field, message, record])),
  ]
  await writeOutput(file, `${lines.join('\n')}\n`)
}
