/** A line of a stream, without its end. `number` is from 1; `error` says what is wrong with a line that has no text. */
export type Line = { number: number; text: string } | { number: number; text?: undefined; error: string }

const newline = 0x0a
const mebibyte = 1024 * 1024
const decoder = new TextDecoder('utf-8', { fatal: true })

/** The lines of a stream. No more than `bytesMax` of a line are held. */
export async function* readLines(chunks: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<Line> {
  let number = 0
  let parts: Uint8Array[] = []
  let size = 0
  const take = (): Line => {
    number++
    const bytes = Buffer.concat(parts)
    const isLonger = size > bytesMax
    parts = []
    size = 0
    if (isLonger) return { number, error: `is longer than ${sizeOf(bytesMax)}` }
    try {
      return { number, text: decoder.decode(bytes).replace(/\r$/, '') }
    } catch {
      return { number, error: 'is not valid UTF-8' }
    }
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

function sizeOf(bytes: number): string {
  return bytes < mebibyte ? `${bytes / 1024} KiB` : `${bytes / mebibyte} MiB`
}
