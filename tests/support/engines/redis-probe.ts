import { connect } from 'node:net'

const timeoutMs = 1_000

/**
 * True when a Redis takes requests: it answers a PING, be it with `NOAUTH`, and is not loading its data any more.
 * Written by hand because the client library belongs to packages/redis.
 * https://redis.io/docs/latest/develop/reference/protocol-spec
 */
export async function redisAnswers(host: string, port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, host)
    let received = ''
    const end = (answers: boolean): void => {
      socket.destroy()
      resolve(answers)
    }
    socket.setTimeout(timeoutMs, () => end(false))
    socket.on('error', () => end(false))
    socket.on('close', () => end(false))
    socket.on('connect', () => socket.write('PING\r\n'))
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
      if (received.includes('\r\n')) end(/^(\+PONG|-NOAUTH)/.test(received))
    })
  })
}
