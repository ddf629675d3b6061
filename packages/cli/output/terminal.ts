import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { styleText } from 'node:util'

type Style = 'bold' | 'dim' | 'green' | 'red' | 'yellow'

/** A stream of the process; `isTTY` says whether a person looks at it. */
export type OutputStream = Writable & { isTTY?: boolean; columns?: number }

/** Where a command writes: data to standard output, everything about it to standard error. */
export interface Terminal {
  /** Whether a person looks at the data. */
  readonly isTty: boolean
  /** Columns of the terminal; Infinity when the data goes into a file or a pipe, where nothing may be cut. */
  readonly width: number
  /** Writes lines of data. */
  print(text: string): void
  /** Writes lines about the data. */
  note(text: string): void
  /** Shows a line that the next call replaces, and null removes. Without a terminal nothing is shown. */
  status(text: string | null): void
  /** Whether `status` shows anything. */
  readonly showsStatus: boolean
  /** Columns of the line that `status` shows. */
  readonly statusWidth: number
  /** The text with a style of the terminal, or as it is: outside of terminals, and with NO_COLOR. */
  style(style: Style, text: string, on?: 'data' | 'notes'): string
  /** Resolves when standard output can take more, or has no reader any more: then nothing is printed. */
  drained(): Promise<void>
  /** Resolves when all that was printed is written, with false when a part of it could not be. */
  written(): Promise<boolean>
  /** Whether the reader of standard output had ended before all was printed. */
  readonly isUnread: boolean
  /**
   * The message about a stream that can't be written, once there is one. A pipe without a reader is no such problem.
   */
  readonly problem: string | undefined
}

const defaultColumns = 80
const clearLine = '\r\u001b[2K'

/** The terminal of the two streams, usually `process.stdout` and `process.stderr`. */
export function openTerminal(out: OutputStream, err: OutputStream): Terminal {
  let shown: string | null = null
  let problem: string | undefined
  let isUnread = false
  /** Streams on which a write has failed. Node emits no `drain` for them. */
  const failed = new Set<OutputStream>()
  const fail = (stream: OutputStream, error: NodeJS.ErrnoException): void => {
    if (failed.has(stream)) return
    failed.add(stream)
    const name = stream === out ? 'Standard output' : 'Standard error'
    if (error.code !== 'EPIPE') problem ??= `${name} can't be written: ${error.message}`
    else if (stream === out) isUnread = true
  }
  const write = (stream: OutputStream, text: string): void => {
    // The error is known here before it is emitted, and so before the command may have ended.
    stream.write(text, (error) => {
      if (error) fail(stream, error)
    })
  }
  out.on('error', (error) => fail(out, error))
  const showsStatus = err.isTTY === true
  const around = (stream: OutputStream, text: string): void => {
    if (shown !== null) write(err, clearLine)
    write(stream, text)
    if (shown !== null) write(err, shown)
  }
  return {
    isTty: out.isTTY === true,
    get width() {
      return out.isTTY === true ? columnsOf(out) : Infinity
    },
    print: (text) => {
      if (!failed.has(out)) around(out, `${text}\n`)
    },
    note: (text) => {
      around(err, `${text}\n`)
    },
    status: (text) => {
      if (!showsStatus || text === shown) return
      write(err, text === null ? clearLine : clearLine + text)
      shown = text
    },
    showsStatus,
    get statusWidth() {
      return columnsOf(err)
    },
    style: (style, text, on = 'data') => styleText(style, text, { stream: on === 'data' ? out : err }),
    drained: async () => {
      // An error of the stream ends the wait, too; main.ts handles it.
      if (!failed.has(out) && out.writableNeedDrain) await once(out, 'drain').catch(() => undefined)
    },
    written: async () => {
      // Callbacks come in the order of the writes, so those of everything that was printed have been called before this
      // one.
      await new Promise<void>((resolve) => {
        out.write('', () => resolve())
      })
      return !failed.has(out)
    },
    get isUnread() {
      return isUnread
    },
    get problem() {
      return problem
    },
  }
}

/** A terminal without a size, as a container may get one, reports 0 columns. */
function columnsOf({ columns = 0 }: OutputStream): number {
  return columns > 0 ? columns : defaultColumns
}
