import { Readable } from 'node:stream'
import { unavailable } from '@sluice/runtime/errors'

/** Maximum number of connections in succession that break without a received byte. */
const attemptsMax = 3

/**
 * A stream of the bytes of `first` that continues when the connection breaks: `reopen` gets the number of received
 * bytes and resolves to the rest. The server may close the connection of a slow reader; the rest is requested when the
 * reader has taken the received bytes. Fails with the error of `reopen`, or with `unavailable` after three connections
 * without a byte.
 */
export function resumeBody(first: Readable, reopen: (received: number) => Promise<Readable>): Readable {
  let body = first
  let received = 0
  let attempts = 0
  /** True while the reader has not taken the received bytes. */
  let isFull = false
  /** The reason why the connection broke while the stream was full. The next read reopens it. */
  let brokenBy: string | undefined

  const stream = new Readable({
    read: () => {
      isFull = false
      if (brokenBy === undefined) {
        body.resume()
        return
      }
      const reason = brokenBy
      brokenBy = undefined
      resume(reason)
    },
    destroy: (error, callback) => {
      body.destroy()
      callback(error)
    },
  })
  const attach = (next: Readable): void => {
    body = next
    body.on('data', (chunk: Buffer) => {
      received += chunk.length
      attempts = 0
      if (stream.push(chunk)) return
      isFull = true
      body.pause()
    })
    body.once('end', () => stream.push(null))
    // A broken connection emits an error and closes, or only closes.
    let reason = 'the connection was closed'
    body.on('error', (error: Error) => {
      reason = error.message
    })
    body.once('close', () => {
      if (next.readableEnded || stream.destroyed) return
      if (isFull) brokenBy = reason
      else resume(reason)
    })
  }
  const resume = (reason: string): void => {
    attempts += 1
    if (attempts > attemptsMax) {
      stream.destroy(unavailable(`S3 broke off the response ${attemptsMax} times: ${reason}`))
      return
    }
    reopen(received).then(
      (next) => {
        if (stream.destroyed) next.destroy()
        else attach(next)
      },
      (error: unknown) => stream.destroy(error as Error),
    )
  }
  attach(first)
  return stream
}
