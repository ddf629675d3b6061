import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { emitWholeFrames } from './whole-frames.ts'

let server: Server
let port: number
/** The bytes that the server sends to the next client before it closes the connection. */
let pieces: readonly Buffer[] = []

beforeAll(async () => {
  server = createServer({ noDelay: true }, (socket) => {
    void send(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as AddressInfo).port
})

afterAll(() => {
  server.close()
})

/** Sends each piece separately, in one turn of the event loop each. */
async function send(socket: Socket): Promise<void> {
  for (const piece of pieces) {
    await new Promise((resolve) => socket.write(piece, resolve))
    await new Promise(setImmediate)
  }
  socket.end()
}

/** Connects, and returns what the socket emitted until it was closed. */
async function receive(sent: readonly Buffer[]): Promise<{ bytes: Buffer; error: Error | undefined }> {
  pieces = sent
  const socket = connect({ host: '127.0.0.1', port })
  emitWholeFrames(socket)
  const chunks: Buffer[] = []
  let error: Error | undefined
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.on('error', (reason) => {
    error = reason
  })
  await new Promise((resolve) => socket.once('close', resolve))
  return { bytes: Buffer.concat(chunks), error }
}

function frame(body: Uint8Array): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length)
  return Buffer.concat([length, body])
}

describe('a socket that emits whole frames', () => {
  test('emits all that arrived up to the end of the last whole frame, whatever pieces it came in', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ minLength: 4, maxLength: 40 }), { maxLength: 6 }),
        fc.nat(),
        fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1 }),
        async (bodies, cut, sizes) => {
          const frames = bodies.map(frame)
          const last = frames.at(-1)
          const lost = last === undefined ? 0 : cut % last.length
          const all = Buffer.concat(frames)
          const sent = all.subarray(0, all.length - lost)
          const whole = lost === 0 ? all : Buffer.concat(frames.slice(0, -1))
          const parts: Buffer[] = []
          for (let at = 0, n = 0; at < sent.length; n++) {
            const size = sizes[n % sizes.length] ?? 1
            parts.push(sent.subarray(at, at + size))
            at += size
          }
          const { bytes, error } = await receive(parts)
          expect(bytes.equals(whole)).toBe(true)
          expect(error).toBeUndefined()
        },
      ),
      { numRuns: 60, interruptAfterTimeLimit: 20_000 },
    )
  })

  test.each([
    ['shorter than a correlation id', Buffer.from([0, 0, 0, 3, 1, 2, 3])],
    ['of another protocol', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ['of a negative length', Buffer.from([255, 255, 255, 255, 0, 0, 0, 0])],
  ])('is destroyed by a frame %s', async (_, sent) => {
    const { bytes, error } = await receive([frame(Buffer.from('whole')), sent])
    expect(bytes.length === 0 || bytes.equals(frame(Buffer.from('whole')))).toBe(true)
    expect(error?.message).toContain('is not a Kafka response')
  })
})
