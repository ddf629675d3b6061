import { execFileSync } from 'node:child_process'
import { describe, expect, test } from '@jest/globals'
import { boundsOf, presets } from './src/state/range.ts'
import { shellDates } from './src/state/shell-dates.ts'
import { loadTemporal } from './src/state/temporal.ts'

await loadTemporal()

const run = (command: string): number => Number(execFileSync('sh', ['-c', command], { encoding: 'utf8' }))

describe('commands of a shell that print the ends of a range', () => {
  test.each(
    presets.flatMap((preset) => ['UTC', 'Europe/Berlin', 'Asia/Kolkata'].map((zone) => [preset, zone] as const)),
  )('for %s in %s, they print the bounds of the range', (preset, zone) => {
    const dates = shellDates(preset, zone)
    const bounds = boundsOf(preset, { now: Date.now(), zone, firstEventAt: null })
    if (preset !== 'all') expect(run(dates?.start ?? '')).toBe(bounds.startMs)
    const end = run(dates?.end ?? '')
    if (bounds.isOpen) expect(Math.abs(end - Date.now())).toBeLessThan(60_000)
    else expect(end).toBe(bounds.endMs)
  })

  test('there are none for chosen days, which do not move', () => {
    expect(shellDates({ from: '2026-11-01', to: '2026-11-09' }, 'UTC')).toBeUndefined()
  })
})
