import { Readable } from 'node:stream'
import { unavailable } from '@sluice/runtime/errors'

/** Connections in succession that may break without a byte received. */
const attemptsMax = 3

/**
 * A stream of the bytes of `first` that continues when the connection breaks: `reopen` gets the number of bytes received and
 * resolves to the rest. So a reader may be slower than the server's patience. Fails with the error of `reopen`, or with
 * `unavailable` after three connections without a byte.
 */
export function resumeBody(first: Readable, reopen: (received: number) => Promise<Readable>): Readable {
  let body = first
  let received = 0
  let attempts = 0

  const stream = new Readable({
    read: () => body.resume(),
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
      if (!stream.push(chunk)) body.pause()
    })
    body.once('end', () => stream.push(null))
    // A broken connection emits an error and closes, or only closes.
    let reason = 'the connection was closed'
    body.on('error', (error: Error) => {
      reason = error.message
    })
    body.once('close', () => {
      if (body.readableEnded || stream.destroyed) return
      resume(reason)
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
