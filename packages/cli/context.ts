import type { Readable } from 'node:stream'
import type { ReadStream } from 'node:tty'
import type { Terminal } from './output/terminal.ts'

/** Everything of the process that a command may touch. */
export interface Context {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly input: Readable & Partial<Pick<ReadStream, 'isTTY' | 'setRawMode'>>
  readonly terminal: Terminal
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
}
