import { cut } from './table.ts'
import type { Terminal } from './terminal.ts'

/** The progress bar of a command. */
export interface Progress {
  /** `done` of `total`, with a few words about both. A total of 0 is not known yet. */
  update(done: number, total: number, text: string): void
  /** Removes the bar. */
  end(): void
}

const barWidthMax = 24
/** Columns of the percentage and of the longest usual text. */
const textWidth = 45
const lineEveryMs = 5_000

/** A bar on a terminal; elsewhere a line at the beginning of each stage (`label`) and every 5 s. */
export function openProgress(terminal: Terminal, now: () => number = Date.now): Progress {
  let label = ''
  let lineAt = 0
  return {
    update: (done, total, text) => {
      const share = total === 0 ? 0 : Math.min(1, done / total)
      const percent = `${Math.floor(share * 100)} %`
      if (terminal.showsStatus) {
        const barWidth = Math.max(4, Math.min(barWidthMax, terminal.statusWidth - textWidth))
        const filled = Math.round(share * barWidth)
        const bar = '█'.repeat(filled) + '░'.repeat(barWidth - filled)
        terminal.status(cut(`${bar} ${percent.padStart(5)}  ${text}`, terminal.statusWidth - 1))
        return
      }
      const [stage = ''] = text.split(' ')
      if (stage === label && now() - lineAt < lineEveryMs) return
      label = stage
      lineAt = now()
      terminal.note(total === 0 ? `${text}…` : `${text} (${percent})`)
    },
    end: () => terminal.status(null),
  }
}
