import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'

/**
 * Events in the shapes that producers send, as JSON, 440 bytes on average: a web tag with empty and null fields, server
 * and mobile SDKs with nested objects, lists and unknown fields, backends and sensors without ids, a tag manager. A
 * third is written with `\u` escapes. They were made by a seeded generator.
 */
export const producerLines: readonly string[] = gunzipSync(
  readFileSync(new URL('producers.ndjson.gz', import.meta.url)),
)
  .toString('utf8')
  .trimEnd()
  .split('\n')

const latest = Math.max(...producerLines.map((line) => timestampOf(line) ?? 0))

function timestampOf(line: string): number | undefined {
  const [, text] = /"timestamp":(\d+)/.exec(line) ?? []
  return text === undefined ? undefined : Number(text)
}

/**
 * The same events as they are stored: their times end now, and each `event_id` has the suffix `pass`, because a
 * repeated event is not stored again. The texts stay as they were written.
 */
export function freshProducerLines(pass: string): string[] {
  const shiftMs = Date.now() - 1_000 - latest
  return producerLines.map((line) =>
    line
      .replace(/"timestamp":(\d+)/, (_, text: string) => `"timestamp":${Number(text) + shiftMs}`)
      .replace(/"event_id":"([^"]*)"/, (_, id: string) => (id === '' ? '"event_id":""' : `"event_id":"${id}-${pass}"`)),
  )
}
