import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'

const root = new URL('../../', import.meta.url)

const mebibyte = 1024 * 1024

/** The flags with which the script `worker` of package.json starts Node. */
function flagsOfWorker(): string[] {
  const { scripts } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
    scripts: { worker: string }
  }
  return scripts.worker.match(/(?<= )--\S+/g) ?? []
}

/**
 * The MiB of buffers that a process holds after it made 400 of 64 KiB and kept none. It calls `collectBuffers` after
 * every tenth buffer.
 */
function heldBuffers(flags: readonly string[]): number {
  const script = `
    import { collectBuffers } from '${new URL('collect-buffers.ts', import.meta.url).href}'
    for (let n = 1; n <= 400; n++) {
      new Uint8Array(65_536)
      if (n % 10 === 0) collectBuffers()
    }
    console.log(process.memoryUsage().arrayBuffers)`
  const answer = execFileSync(process.execPath, [...flags, '--input-type=module', '--eval', script], {
    encoding: 'utf8',
  })
  return Number(answer) / mebibyte
}

describe('collecting buffers', () => {
  test('frees those of the young generation, with the flags of the worker', () =>
    expect(heldBuffers(flagsOfWorker())).toBeLessThan(4))

  test('does nothing without --expose-gc', () => {
    const flags = flagsOfWorker().filter((flag) => flag !== '--expose-gc')
    expect(heldBuffers(flags)).toBeGreaterThan(16)
  })
})
