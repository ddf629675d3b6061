import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { describeWith } from '../../tests/support/describe-with.ts'
import { AppError } from './errors.ts'
import { createLogger } from './logger.ts'

test('a line is JSON with level, time in Unix ms and service', () => {
  const { logger, lines } = capturedLogger()
  const before = Date.now()
  logger.info({ rows: 5 }, 'batch')
  const [line] = lines()
  expect(line).toMatchObject({ level: 'info', service: 'test', rows: 5, msg: 'batch' })
  expect(line?.time).toBeGreaterThanOrEqual(before)
  expect(line?.time).toBeLessThanOrEqual(Date.now())
})

test('lines that are not read from standard output are dropped and counted, and do not fill the memory', async () => {
  const code = `
    import { writeSync } from 'node:fs'
    import { setImmediate } from 'node:timers/promises'
    import { createLogger } from ${JSON.stringify(new URL('logger.ts', import.meta.url).href)}
    let dropped = 0
    const logger = createLogger({ service: 'test', level: 'info', onDropped: () => dropped++ })
    const text = 'x'.repeat(100_000)
    for (let n = 0; n < 200; n++) {
      logger.info({ text })
      await setImmediate()
    }
    writeSync(2, String(dropped))
    process.kill(process.pid, 'SIGKILL')
  `
  // The standard output of the child process is a pipe without a reader.
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: ['ignore', 'pipe', 'pipe'] })
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  await once(child, 'exit')
  child.stdout.destroy()
  // The child logs 20 MB. It may buffer 8 MiB of them, in addition to the content of the pipe.
  expect(Number(errors)).toBeGreaterThan(100)
  expect(Number(errors)).toBeLessThan(130)
})

const hasFullDevice = existsSync('/dev/full')

/** Runs code that has a `logger`, with a file as standard output on which each write fails. */
const runOnFullDisk = (code: string): { status: number | null; errors: string } => {
  const program = `
    import { writeSync } from 'node:fs'
    import { setTimeout } from 'node:timers/promises'
    import { createLogger } from ${JSON.stringify(new URL('logger.ts', import.meta.url).href)}
    let dropped = 0
    const logger = createLogger({ service: 'test', level: 'info', onDropped: () => dropped++ })
    ${code}
  `
  const output = openSync('/dev/full', 'w')
  try {
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['ignore', output, 'pipe'],
      timeout: 20_000,
      killSignal: 'SIGKILL',
    })
    return { status, errors: stderr.toString() }
  } finally {
    closeSync(output)
  }
}

describeWith('/dev/full', hasFullDevice)('a full disk', () => {
  test('lines that cannot be written are dropped and counted, and the process goes on until a signal', () => {
    const { status, errors } = runOnFullDisk(`
      process.on('SIGTERM', () => {
        writeSync(2, String(dropped))
        logger.info('stopped')
        logger.flush()
        process.exit(0)
      })
      const text = 'x'.repeat(100_000)
      for (let n = 0; n < 200; n++) {
        logger.info({ text })
        await setTimeout(2)
      }
      process.kill(process.pid, 'SIGTERM')
      await setTimeout(60_000)
    `)
    // The child logs 20 MB, of which it may buffer 8 MiB.
    expect({ status, dropped: Number(errors) }).toEqual({ status: 0, dropped: 117 })
  })

  test('a first failure while the process exits does not keep it', () => {
    expect(runOnFullDisk(`logger.info('stopped'); process.exit(3)`)).toEqual({ status: 3, errors: '' })
  })
})

test('lines below the level are left out', () => {
  let text = ''
  const logger = createLogger({
    service: 'test',
    level: 'warn',
    destination: {
      write: (chunk: string) => {
        text += chunk
      },
    },
  })
  logger.debug('a')
  logger.info('b')
  logger.warn('c')
  logger.error('d')
  expect(text.match(/"msg":"."/g)).toStrictEqual(['"msg":"c"', '"msg":"d"'])
})

test('fields that are named like credentials are redacted, one level down too', () => {
  const { logger, text, lines } = capturedLogger()
  const secrets = {
    api_key: 'canary-1',
    authorization: 'canary-2',
    cookie: 'canary-3',
    password: 'canary-4',
  }
  logger.info({ ...secrets, headers: secrets }, 'request')
  expect(text()).not.toContain('canary')
  const redacted = {
    api_key: '[redacted]',
    authorization: '[redacted]',
    cookie: '[redacted]',
    password: '[redacted]',
  }
  expect(lines()[0]).toMatchObject({ ...redacted, headers: redacted })
})

test('a logger does not change the objects that it logs', () => {
  const { logger } = capturedLogger()
  const fields = { password: 'p', headers: { cookie: 'c' } }
  logger.info(fields, 'request')
  expect(fields).toStrictEqual({ password: 'p', headers: { cookie: 'c' } })
})

test('an error is logged with its internal text and its causes', () => {
  const { logger, lines } = capturedLogger()
  const cause = new Error('connection refused')
  const error = new AppError('unavailable', {
    message: 'Service temporarily unavailable',
    internal: 'Postgres: away',
    cause,
  })
  logger.error({ err: error }, 'request')
  expect(lines()[0]).toMatchObject({ err: { type: 'AppError', internal: 'Postgres: away', code: 'unavailable' } })
  expect(JSON.stringify(lines()[0]?.err)).toContain('connection refused')
})

test('the values of a line cannot forge another line', () => {
  const { logger, lines } = capturedLogger()
  logger.info({ site_id: 'a"}\n{"level":"fatal"' }, 'request\n{"level":"fatal"}')
  expect(lines()).toHaveLength(1)
  expect(lines()[0]).toMatchObject({ level: 'info', site_id: 'a"}\n{"level":"fatal"' })
})
