/** A line of a stream, without its end. `text` is undefined for one that is longer than allowed. */
export interface Line {
  /** From 1. */
  number: number
  text: string | undefined
}

const newline = 0x0a
const decoder = new TextDecoder('utf-8')

/** The lines of a stream of UTF-8. No more than `bytesMax` of a line are held. */
export async function* readLines(chunks: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<Line> {
  let number = 0
  let parts: Uint8Array[] = []
  let size = 0
  const take = (): Line => {
    number++
    const text = size > bytesMax ? undefined : decoder.decode(Buffer.concat(parts)).replace(/\r$/, '')
    parts = []
    size = 0
    return { number, text }
  }
  for await (const chunk of chunks) {
    let from = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      size += end - from
      if (size <= bytesMax) parts.push(chunk.subarray(from, end))
      yield take()
      from = end + 1
    }
    size += chunk.length - from
    if (size <= bytesMax) parts.push(chunk.subarray(from))
    else parts = []
  }
  if (size > 0) yield take()
}
