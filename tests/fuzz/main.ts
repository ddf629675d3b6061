// npm run fuzz: sends generated requests, valid and invalid ones, to every operation of /openapi.json.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { generateKey } from '@sluice/access/api-key'
import { operations } from '@sluice/api/operations'
import { type ServiceProcess, startService } from '../support/service-process.ts'
import { installSchemathesis, MissingError, type Round, runSchemathesis } from './schemathesis.ts'
import { casesOf, summary } from './summary.ts'

const usage = `npm run fuzz -- [--cases N] [--seed N]

--cases  at least so many requests (20000)
--seed   decides what they are (1)`

class UsageError extends Error {}

interface Command {
  cases: number
  seed: number
}

function readCommand(args: string[]): Command {
  try {
    const { values } = parseArgs({ args, options: { cases: { type: 'string' }, seed: { type: 'string' } } })
    return { cases: readCount(values.cases ?? '20000'), seed: readCount(values.seed ?? '1') }
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function readCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`"${text}" is no count`)
  return Number(text)
}

/** The names of operations in schemathesis. */
const labels = Object.values(operations).map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`)

const interrupted = new AbortController()

/** The lowest expected rate of cases; a slower run counts as one that hangs. */
const slowestCasesPerSecond = 4
const startSeconds = 180

/**
 * Most cases of an operation in one round: schemathesis searches all earlier responses for each case, which gets slow.
 */
const casesEachMax = 100
/** Fewest cases of an operation in one round: fewer would not be worth the start of schemathesis. */
const casesEachMin = 20

/** Runs rounds until there are enough cases, as some operations have few different ones. Returns the problems. */
async function fuzz(
  { cases, seed }: Command,
  sluice: ServiceProcess,
  at: { folder: string; key: string; bin: string },
) {
  const tooLong = AbortSignal.timeout((startSeconds + cases / slowestCasesPerSecond) * 1000)
  const signal = AbortSignal.any([tooLong, interrupted.signal])
  const keyId = await ownKeyId(sluice.url, at.key)
  const rounds: Round[] = []
  while (casesOf(rounds) < cases) {
    // Schemathesis also sends sequences of requests, which are about as many again.
    const wanted = Math.ceil((cases - casesOf(rounds)) / labels.length / 2)
    const casesEach = Math.max(casesEachMin, Math.min(casesEachMax, wanted))
    const round = { casesEach, seed: seed + rounds.length, isFirst: rounds.length === 0 }
    rounds.push(await runSchemathesis(at.bin, { url: sluice.url, ...at, keyId, ...round, signal }))
    if (casesOf(rounds.slice(-1)) === 0) break
  }
  const { lines, problems } = summary(rounds, { cases, labels })
  console.log(lines.join('\n'))
  return problems
}

async function ownKeyId(url: string, key: string): Promise<string> {
  const response = await fetch(`${url}/api/v1/session`, { headers: { Authorization: `Bearer ${key}` } })
  const { data } = (await response.json()) as { data: { key_id: string } }
  return data.key_id
}

async function main(command: Command): Promise<string[]> {
  const bin = await installSchemathesis()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-fuzz-'))
  const key = generateKey('prod')
  try {
    const sluice = await startService('standalone', {
      SLUICE_DATA_DIR: join(folder, 'data'),
      SLUICE_ADMIN_KEY: key,
      // Webhooks and alert rules of generated requests contain real hosts. Nothing listens on this port, so nothing is
      // sent to them.
      SLUICE_WEBHOOK_PROXY: 'http://127.0.0.1:9',
    })
    try {
      const problems = await fuzz(command, sluice, { folder, key, bin })
      if (problems.length > 0) console.log(`what standalone said last:\n${sluice.output().slice(-8_192)}`)
      return problems
    } finally {
      await sluice.stop()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

// A signal stops the processes that this one started before it ends.
process.once('SIGINT', () => {
  interrupted.abort(new Error('interrupted'))
})
process.once('SIGTERM', () => {
  interrupted.abort(new Error('interrupted'))
})

try {
  const began = performance.now()
  const command = readCommand(process.argv.slice(2))
  const problems = await main(command)
  for (const problem of problems) console.error(`failed: ${problem}`)
  console.log(
    `${problems.length === 0 ? 'passed' : 'failed'} in ${Math.round((performance.now() - began) / 1000)} s, seed ${command.seed}`,
  )
  process.exitCode = problems.length === 0 ? 0 : 1
} catch (error) {
  process.exitCode = 1
  if (error instanceof UsageError) console.error(`${error.message}\n\n${usage}`)
  else if (error instanceof MissingError) console.error(error.message)
  else if (interrupted.signal.aborted) console.error('interrupted')
  else throw error
}
