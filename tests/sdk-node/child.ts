// The application of the ledger: tracks events with a spool, and prints the receipt of each once track has returned,
// until it is killed. With `isLast` it tracks nothing, and ends when all events that others have left are sent.
import { readdirSync, writeSync } from 'node:fs'
import { openSluice } from '@sluice/node/open-sluice'
import type { Sluice, SluiceError } from '@sluice/node/types'
import { contentOf } from './content.ts'

export interface ChildSettings {
  url: string
  key: string
  site: string
  spool: string
  spoolBytesMax?: number
  /** By how many ms the clock is ahead. */
  clockAheadMs: number
  /** Number of the process; events are numbered in it. */
  process: number
  isLast: boolean
}

/** What the process prints, a line of JSON each. */
export type ChildLine =
  { started: number } | { key: string; event_id: string; timestamp: number } | { error: string; message: string }

const eventsPerTick = 5
const tickMs = 5

const argument = process.argv[2] ?? ''
const settings = JSON.parse(argument) as ChildSettings
const { clockAheadMs, isLast, process: ofProcess, ...options } = settings
let isSpoolSound = true

function print(line: ChildLine): void {
  writeSync(1, `${JSON.stringify(line)}\n`)
}

const onError = ({ code, message }: SluiceError): void => {
  // Waits until this process is killed. An event that is only in memory may be lost, so it is not reported.
  if (code === 'spool_failed') isSpoolSound = false
  print({ error: code, message })
}
const wall = () => Date.now() + clockAheadMs
const sluice = openSluice({ ...options, onError }, wall) as Sluice<Record<string, object>>

function trackSome(from: number): void {
  for (let n = from; n < from + eventsPerTick; n++) {
    const key = `${ofProcess}-${n}`
    const { type, properties, fields } = contentOf(key)
    const receipt = sluice.track(type, properties, fields)
    if (isSpoolSound) print({ key, ...receipt })
  }
  setTimeout(trackSome, tickMs, from + eventsPerTick)
}

if (isLast) {
  while ((await sluice.flush()).pending > 0);
  await sluice.close()
  const left = readdirSync(settings.spool)
  if (left.length > 0) print({ error: 'left', message: left.join() })
} else {
  trackSome(0)
  print({ started: ofProcess })
}
