import { availableParallelism, cpus, totalmem } from 'node:os'

/** The machine and versions that the figures depend on. */
export function environment(): object {
  return {
    node: process.version,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memory_gib: Math.round(totalmem() / 2 ** 30),
  }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

export function rounded(value: number, digits = 2): number {
  return Number(value.toFixed(digits))
}
