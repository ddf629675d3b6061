import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, mkdir, readFile, rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const requirements = fileURLToPath(new URL('requirements.txt', import.meta.url))
const cache = fileURLToPath(new URL('../../.cache/schemathesis/', import.meta.url))

/** A missing requirement that only the user can install; the message names it. */
export class MissingError extends Error {}

/**
 * Returns the folder with the commands of schemathesis, in a virtual environment of Python that is created if missing.
 * The name of the environment holds a hash of the versions, so that other versions get an environment of their own.
 */
export async function installSchemathesis(): Promise<string> {
  const versions = createHash('sha256')
    .update(await readFile(requirements))
    .digest('hex')
    .slice(0, 12)
  const folder = `${cache}${versions}`
  try {
    await access(`${folder}/installed`)
    return `${folder}/bin`
  } catch {
    // The environment is missing or incomplete.
  }
  await run('python3', ['-c', 'import ensurepip, venv']).catch(() => {
    throw new MissingError('npm run fuzz needs Python 3 with venv: apt-get install python3-venv')
  })
  await rm(folder, { recursive: true, force: true })
  await mkdir(cache, { recursive: true })
  await run('python3', ['-m', 'venv', folder])
  await run(`${folder}/bin/pip`, ['install', '--quiet', '--disable-pip-version-check', '-r', requirements])
  await run('touch', [`${folder}/installed`])
  return `${folder}/bin`
}

/** The result of one run. */
export interface Round {
  /** The exit code of schemathesis: 0 when no check failed. */
  exitCode: number | NodeJS.Signals
  /** Cases that were answered, by operation and status. */
  answers: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** Cases without a response, by operation. */
  unanswered: Readonly<Record<string, number>>
}

export interface RoundOptions {
  url: string
  key: string
  keyId: string
  /** Cases that are generated for each operation. */
  casesEach: number
  seed: number
  /**
   * True for the first round, which alone has the phases `examples` and `coverage`: their cases are always the same.
   */
  isFirst: boolean
  /** The folder for the files that schemathesis writes. */
  folder: string
  signal: AbortSignal
}

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
]

/** Runs schemathesis over all operations with its report on the terminal. Rejects when it wrote no counts. */
export async function runSchemathesis(bin: string, options: RoundOptions): Promise<Round> {
  const { url, key, keyId, casesEach, seed, isFirst, folder, signal } = options
  const counts = `${folder}/counts.json`
  await rm(counts, { force: true })
  const child = spawn(
    `${bin}/schemathesis`,
    [
      ...['run', `${url}/openapi.json`],
      ...['--url', url],
      ...['--header', `Authorization: Bearer ${key}`],
      ...['--checks', checks.join(',')],
      ...['--mode', 'all'],
      ...['--phases', isFirst ? 'examples,coverage,fuzzing,stateful' : 'fuzzing,stateful'],
      ...['--max-examples', String(casesEach)],
      ...['--seed', String(seed)],
      ...['--continue-on-failure', '--no-color', '--warnings', 'off'],
      ...['--generation-with-security-parameters', 'false', '--generation-database', 'none'],
      ...['--suppress-health-check', 'all', '--output-sanitize', 'false', '--request-timeout', '30'],
    ],
    {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: fileURLToPath(new URL('.', import.meta.url)),
        PYTHONDONTWRITEBYTECODE: '1',
        SCHEMATHESIS_HOOKS: 'hooks',
        FUZZ_KEY_ID: keyId,
        FUZZ_COUNTS: counts,
      },
      stdio: ['ignore', 'inherit', 'inherit'],
      signal,
      killSignal: 'SIGTERM',
    },
  )
  const exitCode = await new Promise<number | NodeJS.Signals>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, killedBy) => resolve(killedBy ?? code ?? -1))
  })
  return { exitCode, ...(JSON.parse(await readFile(counts, 'utf8')) as Omit<Round, 'exitCode'>) }
}
