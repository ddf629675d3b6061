import { spawn } from 'node:child_process'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from '@jest/globals'
import { startStopwatch } from '../../tests/support/stopwatch.ts'

/**
 * A service with a renamed variable. It stops itself during its start or once it runs (STOPS_AT). Its ClickHouse is at
 * CLICKHOUSE.
 */
const program = `
import { runService } from '${new URL('run-service.ts', import.meta.url).href}'
import { denyAll } from '${new URL('../access/access.ts', import.meta.url).href}'
import { FatalError } from '${new URL('../runtime/supervisor.ts', import.meta.url).href}'
import { openEventInserter } from '${new URL('../event-store/insert/event-inserter.ts', import.meta.url).href}'
import { schemaGuard } from '${new URL('../runtime/schema-guard.ts', import.meta.url).href}'
import { listenVariables, optionalVariable } from '${new URL('../runtime/variables.ts', import.meta.url).href}'
import { drainSeconds, stopSeconds } from '${new URL('variables.ts', import.meta.url).href}'

const { CLICKHOUSE, STOPS_AT = 'ready' } = process.env
const stopAt = (moment) => {
  if (moment === STOPS_AT) process.kill(process.pid, 'SIGTERM')
}
const clickHouse = CLICKHOUSE && openEventInserter(CLICKHOUSE)
const checkSchema = () => {
  stopAt('start')
  return clickHouse.checkSchema()
}

await runService({
  name: 'invented',
  variables: {
    ...listenVariables(0, '127.0.0.1'),
    SLUICE_COLOUR: optionalVariable('A colour.'),
    SLUICE_DRAIN_SECONDS: drainSeconds(0),
    SLUICE_STOP_SECONDS: { ...stopSeconds, default: '10' },
  },
  environment: process.env,
  renamed: new Map([['SLUICE_COLOR', 'SLUICE_COLOUR']]),
  build: async (config, { logger, metrics }) => {
    if (config.SLUICE_COLOUR === 'fatal') throw new FatalError('Choose another colour.')
    const { values } = await metrics.getSingleMetric('sluice_deprecated_config').get()
    const deprecated = values.map(({ labels, value }) => [labels.name, value])
    logger.warn({ colour: config.SLUICE_COLOUR, deprecated }, 'built')
    const service = { routes: [], pages: [], components: [], checks: [] }
    const engines = clickHouse ? [schemaGuard('clickhouse', checkSchema, logger)] : []
    return { service, access: denyAll, engines, onReady: () => stopAt('ready') }
  },
})`

const command = [process.execPath, '--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', program]

/** Runs `program` to its end with `environment`: its exit code and what it wrote. */
async function outputOf([file = '', ...args]: readonly string[], environment: Readonly<Record<string, string>>) {
  const child = spawn(file, args, {
    cwd: import.meta.dirname,
    env: {
      SLUICE_HOST: '127.0.0.1',
      SLUICE_PORT: '0',
      SLUICE_METRICS_PORT: '0',
      SLUICE_LOG_LEVEL: 'warn',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk: Buffer) => (output[name] += chunk.toString()))
  }
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, ...output }
}

/** Runs the service to its end with `environment`; its log as objects, and what it wrote to standard error. */
async function run(environment: Readonly<Record<string, string>>) {
  const { code, stdout, stderr } = await outputOf(command, environment)
  const lines = stdout.split('\n').filter((line) => line !== '')
  return { code, errors: stderr, log: lines.map((line) => JSON.parse(line) as unknown) }
}

test('a renamed variable works under its former name, with one warning in the log and a figure of 1', async () => {
  const { code, errors, log } = await run({ SLUICE_COLOR: 'red' })
  expect({ code, errors }).toStrictEqual({ code: 0, errors: '' })
  expect(log).toStrictEqual([
    expect.objectContaining({
      level: 'warn',
      former: 'SLUICE_COLOR',
      present: 'SLUICE_COLOUR',
      msg: 'SLUICE_COLOR is the former name of SLUICE_COLOUR, and a later release will not read it: rename it',
    }),
    expect.objectContaining({ colour: 'red', deprecated: [['SLUICE_COLOR', 1]], msg: 'built' }),
  ])
})

test('a misspelt variable is a warning in the log', async () => {
  const { code, log } = await run({ SLUICE_COLOURS: 'red' })
  expect(code).toBe(0)
  expect(log).toStrictEqual([
    expect.objectContaining({
      level: 'warn',
      msg: 'SLUICE_COLOURS is set, but no such variable is read: did you mean SLUICE_COLOUR?',
    }),
    expect.objectContaining({ msg: 'built' }),
  ])
})

test('a variable under its present name is no reason for a warning or a figure', async () => {
  const { code, log } = await run({ SLUICE_COLOUR: 'red' })
  expect(code).toBe(0)
  expect(log).toStrictEqual([expect.objectContaining({ colour: 'red', deprecated: [], msg: 'built' })])
})

test('a failure is a line of the log and a sentence, at a terminal the sentence alone', async () => {
  const environment = { SLUICE_COLOUR: 'fatal' }
  const { code, errors, log } = await run(environment)
  expect({ code, errors }).toStrictEqual({ code: 1, errors: 'invented: Choose another colour.\n' })
  expect(log).toStrictEqual([expect.objectContaining({ level: 'fatal', msg: 'failed' })])

  // script runs a command at a terminal of its own; the program would need quotes on its command line.
  const atTerminal = ['script', '--quiet', '--return', '--command', '"$NODE" $FLAGS --eval "$PROGRAM"', '/dev/null']
  const [node = '', ...flags] = command.slice(0, -2)
  expect(
    await outputOf(atTerminal, {
      ...environment,
      NODE: node,
      FLAGS: flags.join(' '),
      PROGRAM: program,
      SHELL: '/bin/sh',
    }),
  ).toMatchObject({ code: 1, stdout: 'invented: Choose another colour.\r\n' })
})

test.each(['start', 'ready'])(
  'a ClickHouse that accepts connections and never answers delays neither the start nor a stop: %s',
  async (moment) => {
    const silent = createServer()
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/sluice`
    const elapsedMs = startStopwatch()
    const { code, log } = await run({ CLICKHOUSE: url, STOPS_AT: moment })
    // ClickHouse is given up after a minute.
    expect(elapsedMs()).toBeLessThan(45_000)
    silent.close()
    expect(code).toBe(0)
    expect(log.at(-1)).toMatchObject({ level: 'warn', engine: 'clickhouse' })
  },
)

test('two values under both names end the service with 1 before anything is built', async () => {
  const { code, errors, log } = await run({ SLUICE_COLOUR: 'red', SLUICE_COLOR: 'blue' })
  expect(code).toBe(1)
  expect(errors).toContain('SLUICE_COLOR is the former name of SLUICE_COLOUR, and both are set, to different values')
  expect(log).toStrictEqual([])
})

test('what is wrong with the ports, the times of a stop and the certificate is listed at once', async () => {
  const { code, errors } = await run({
    SLUICE_PORT: '8080',
    SLUICE_METRICS_PORT: '8080',
    SLUICE_DRAIN_SECONDS: '10',
    SLUICE_STOP_SECONDS: '12',
    SLUICE_TLS_CERT: 'cert.pem',
  })
  expect(code).toBe(1)
  expect(errors).toContain('The configuration has 3 mistakes:')
  expect(errors).toContain('SLUICE_METRICS_PORT must differ from SLUICE_PORT')
  expect(errors).toContain('SLUICE_STOP_SECONDS must be at least 16')
  expect(errors).toContain('SLUICE_TLS_CERT and SLUICE_TLS_KEY must be set both, or neither')
})
