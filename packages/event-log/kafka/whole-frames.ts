import type { Socket } from 'node:net'

/** Number of bytes of a frame's length field, which precedes the frame. */
const lengthBytes = 4
/** A response begins with its correlation id. */
const frameBytesMin = 4
/** Larger than any response that this client requests. A frame with a greater length does not come from Kafka. */
const frameBytesMax = 512 * 1024 * 1024

/**
 * Makes a socket emit the bytes of a response only when all of them have arrived. kafkajs reconnects with the object of
 * the lost connection, and that object keeps the first bytes of a response that was cut off. kafkajs would read them as
 * the beginning of the next connection's responses, and the process would end with an error that nobody can catch. A
 * frame with an impossible length destroys the socket.
 */
export function emitWholeFrames(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean
  /** Chunks of the incomplete frame. */
  let held: Buffer[] = []
  /** The number of bytes of the frame's length field that were read, and their value so far. */
  let lengthRead = 0
  let length = 0
  /** Bytes that are missing once the length is known. */
  let missing = 0

  /**
   * Returns the end of the last frame that ends in the chunk; 0 if none ends there; -1 for a frame with an impossible
   * length.
   */
  function lastEnd(chunk: Buffer): number {
    let end = 0
    for (let at = 0; at < chunk.length;) {
      if (lengthRead < lengthBytes) {
        length = length * 256 + (chunk[at++] ?? 0)
        if (++lengthRead < lengthBytes) continue
        if (length < frameBytesMin || length > frameBytesMax) return -1
        missing = length
        continue
      }
      const read = Math.min(missing, chunk.length - at)
      at += read
      missing -= read
      if (missing > 0) continue
      end = at
      lengthRead = 0
      length = 0
    }
    return end
  }

  function take(chunk: Buffer): boolean {
    const end = lastEnd(chunk)
    if (end === -1) {
      socket.destroy(new Error(`a frame of ${length} bytes is not a Kafka response`))
      return true
    }
    if (end === 0) {
      held.push(chunk)
      return true
    }
    const whole = [...held, end === chunk.length ? chunk : chunk.subarray(0, end)]
    held = end === chunk.length ? [] : [chunk.subarray(end)]
    for (const piece of whole) emit('data', piece)
    return true
  }

  socket.emit = (event: string | symbol, ...values: unknown[]) =>
    event === 'data' ? take(values[0] as Buffer) : emit(event as string, ...values)
}
