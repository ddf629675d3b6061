import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { afterEach, test } from '@jest/globals'
import { openRedis, type Redis } from '@sluice/redis/open'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../support/captured-logger.ts'
import { expectGolden, lineJson } from './golden.ts'

type Value = string | number | null | readonly Value[]

/** A server that records commands of Redis's protocol and replies to some of them as a Redis without data does. */
interface RecordingRedis {
  url: string
  received: string[][]
  stop: () => Promise<void>
}

async function startRecordingRedis(replyTo: (command: readonly string[]) => Value): Promise<RecordingRedis> {
  const received: string[][] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let waiting = ''
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => {
      waiting += chunk
      for (let read = readCommand(waiting); read !== undefined; read = readCommand(waiting)) {
        waiting = waiting.slice(read.length)
        received.push(read.command)
        const [name = ''] = read.command
        if (name.toLowerCase() === 'evalsha') socket.write('-NOSCRIPT No matching script.\r\n')
        else socket.write(encoded(replyTo(read.command)), 'latin1')
      }
    })
    socket.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    stop: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}

/** The first whole command of a text; undefined while there is none. */
function readCommand(text: string): { command: string[]; length: number } | undefined {
  const head = /^\*(\d+)\r\n/.exec(text)
  if (!head) return undefined
  let at = head[0].length
  const command: string[] = []
  for (let n = 0; n < Number(head[1]); n++) {
    const size = /^\$(\d+)\r\n/.exec(text.slice(at, at + 20))
    const bytes = Number(size?.[1])
    const from = at + (size?.[0].length ?? 0)
    if (!size || text.length < from + bytes + 2) return undefined
    command.push(Buffer.from(text.slice(from, from + bytes), 'latin1').toString('utf8'))
    at = from + bytes + 2
  }
  return { command, length: at }
}

function encoded(value: Value): string {
  if (value === null) return '$-1\r\n'
  if (typeof value === 'number') return `:${value}\r\n`
  if (typeof value === 'string') return `$${Buffer.byteLength(value)}\r\n${value}\r\n`
  return `*${value.length}\r\n${value.map(encoded).join('')}`
}

let recording: RecordingRedis
let redis: Redis

afterEach(async () => {
  await redis.close()
  await recording.stop()
})

/** The reply to a command; a script is recognised by a word that no other script holds. */
function replyOf([name = '', ...rest]: readonly string[]): Value {
  const text = rest.join(' ')
  switch (name.toLowerCase()) {
    case 'info':
      return 'redis_version:7.2.0\r\nloading:0\r\n'
    case 'eval':
      if (text.includes('KEEPTTL')) return [3, 60_000]
      if (text.includes("'ends', now")) return 1
      if (text.includes('session[1]')) return ['hash of the key', 1_000]
      return text.includes("return {'new'}") ? ['new'] : 1
    case 'del':
      return 1
    default:
      return 'OK'
  }
}

async function open(parameters: string): Promise<void> {
  recording = await startRecordingRedis(replyOf)
  redis = openRedis(`${recording.url}${parameters}`, { ...capturedLogger(), replyTimeoutMs: 10_000 })
  // It is unavailable until its connection is ready.
  const deadline = Date.now() + 10_000
  for (;;) {
    try {
      await redis.check()
      return
    } catch (error) {
      if (Date.now() > deadline) throw error
      await new Promise(setImmediate)
    }
  }
}

/** Shows a script as it was sent the first time, and then by its name. */
function commandLines(commands: readonly (readonly string[])[]): string {
  const scripts = new Map<string, string>()
  const lines = commands.map(([name = '', first = '', ...rest]) => {
    if (name.toLowerCase() !== 'eval') return lineJson([name, first, ...rest])
    if (!scripts.has(first)) scripts.set(first, `script ${scripts.size + 1}`)
    return lineJson([name, `<${scripts.get(first) ?? ''}>`, ...rest])
  })
  return [...lines, ...[...scripts].map(([script, name]) => `\n## ${name}\n${script.trim()}`), ''].join('\n')
}

/** The commands after those that open the connection, without those that check it or which scripts are known. */
function workOf(received: readonly string[][]): string[][] {
  const known = new Set(['info', 'client', 'select', 'auth', 'evalsha', 'quit', 'hello'])
  const isCheck = (command: readonly string[]): boolean => command.some((each) => /^\w+:answer:check:/.test(each))
  return received.filter((command) => !known.has(command[0]?.toLowerCase() ?? '') && !isCheck(command))
}

test('limits, sessions, sign-in codes and responses are kept in Redis by the keys and scripts of the golden file', async () => {
  await open('')
  await redis.limiter.consume('events:key_1', 3, 10_000)
  await redis.limiter.consume('events:key_1', 1, 10)
  await redis.limiter.refund('events:key_1', 2, 10_000)
  // Most of this limit is left, so the request is granted without waiting for Redis, and counted there afterwards.
  await redis.limiter.consume('queries:key_1', 1, 1_000_000)
  await redis.limiter.consume('queries:key_1', 1, 1_000_000)
  // A script that this server does not know is sent a second time, after its reply.
  const isCounted = () => workOf(recording.received).some((command) => command.includes(`${Number.MAX_SAFE_INTEGER}`))
  await waitUntil(isCounted, 'the second count')
  await redis.sessions.create('hash of a token', { keyHash: 'hash of a key' })
  await redis.sessions.find('hash of a token')
  await redis.sessions.delete('hash of a token')
  await redis.signInCodes.create('hash of a code', { keyHash: 'hash of a key' })
  await redis.signInCodes.take('hash of a code')
  await redis.idempotency.claim('id', 'fingerprint', 'owner', 'key_1')
  await redis.idempotency.complete('id', 'fingerprint', { status: 201, data: { a: 'ü' }, timestamp: 1 }, 'key_1')
  await redis.idempotency.release('id', 'owner')
  expectGolden('redis/commands.txt', commandLines(workOf(recording.received)))
})

test('keys begin with the prefix of the URL as in the golden file', async () => {
  await open('/3?prefix=other:')
  await redis.limiter.consume('admin:key_1', 1, 100)
  await redis.sessions.delete('hash of a token')
  await redis.idempotency.release('id', 'owner')
  const selected = recording.received.filter(([name = '']) => name.toLowerCase() === 'select')
  const keys = workOf(recording.received).map(([name, script, ...rest]) =>
    name?.toLowerCase() === 'eval' ? [name, '<script>', ...rest] : [name, script, ...rest],
  )
  expectGolden('redis/prefix.txt', `${[...selected, ...keys].map(lineJson).join('\n')}\n`)
})
