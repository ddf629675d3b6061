import { benchEvent } from './events.ts'
import { freshProducerLines, producerLines } from './producers.ts'

/** Events as JSON lines: the shapes of real producers, and one plain shape, with which older figures were measured. */
export const shapes = {
  producers: producerLines,
  plain: Array.from({ length: 20_000 }, (_, n) => JSON.stringify(benchEvent(n))),
} as const satisfies Record<string, readonly string[]>

/** The shape of benches that take one: BENCH_SHAPE, the shapes of producers by default. */
export const isPlain = process.env.BENCH_SHAPE === 'plain'

/** Events that are stored, as JSON lines: their times end now, and ids have the suffix `pass`. */
export function freshLines(pass: string): string[] {
  if (!isPlain) return freshProducerLines(pass)
  return Array.from({ length: 10_000 }, (_, n) => JSON.stringify(benchEvent(n, pass)))
}

/** The bodies of batches of `size` events each. */
export function batchBodies(lines: readonly string[], size: number): string[] {
  return Array.from(
    { length: Math.floor(lines.length / size) },
    (_, n) => `{"events":[${lines.slice(n * size, (n + 1) * size).join(',')}]}`,
  )
}
