/**
 * A process's clock, corrected by the clock of Postgres, which all processes share (docs/decisions/017-freshness.md).
 */
export interface SynchronizedClock {
  /** The time in Unix ms, a whole number. */
  now(): number
  /**
   * The time in Unix ms, a whole number, by the clock that nobody can set. After a sleep of the machine it is behind by
   * the length of the sleep until the next comparison. It is never ahead.
   */
  steady(): number
  /** The time of Postgres is not earlier than this; -Infinity before the first comparison. */
  earliest(): number
  /** The time of Postgres is not later than this; Infinity before the first comparison. */
  latest(): number
  /** Compares this clock with the one of Postgres. `readTime` returns the time of Postgres in Unix ms. */
  compare(readTime: () => Promise<number>): Promise<void>
  /** One line while the machine's clock is more than a second off, for /readyz. */
  warnings(): readonly string[]
}

/** The two clocks of a machine, in ms. */
export interface MachineClocks {
  /** Unix time. It counts while the machine sleeps, and somebody may set it. */
  wall: () => number
  /** Time since an arbitrary moment. Nobody can set it, and it may stand while the machine sleeps. */
  steady: () => number
}

const machineClocks: MachineClocks = { wall: () => Date.now(), steady: () => performance.now() }

/**
 * How far a machine's clock may drift from the clock of Postgres after a comparison, in ms per ms. A cheap quartz
 * drifts half as much.
 */
const driftMax = 1e-4
/** The wall clock shows whole milliseconds: its readings and their differences are off by up to this much. */
const resolutionMs = 2
/** /readyz warns beyond this difference. */
const offsetMsMax = 1_000

interface Comparison {
  /** The differences that turn each of the machine's clocks into the time of Postgres. */
  wallOffset: number
  steadyOffset: number
  /** The clocks at the comparison. */
  wall: number
  steady: number
  /** Half of the round trip, because Postgres read its clock at some moment of it, plus the resolution. */
  errorMs: number
}

/**
 * Creates a clock that shows the machine's time until its first comparison with Postgres.
 *
 * `now` is the later one of both corrected clocks of the machine, because the wall clock alone would go back when it is
 * set back, and the steady one alone would be behind after a sleep of the machine. If somebody sets the wall clock
 * forward, `now` is too late until the next comparison. Events then get a time of receipt that is too late, which does
 * not make `complete_until` wrong. Where a time that is too late does harm, `steady` is read. `earliest` and `latest`
 * are right whichever clock is right.
 */
export function synchronizedClock({ wall, steady }: MachineClocks = machineClocks): SynchronizedClock {
  let known: Comparison = {
    wallOffset: 0,
    steadyOffset: wall() - steady(),
    wall: wall(),
    steady: steady(),
    errorMs: Infinity,
  }

  /** The time since `from` by the clock that has gone further. */
  const elapsedMs = (from: Pick<Comparison, 'wall' | 'steady'>): number =>
    Math.max(0, wall() - from.wall, steady() - from.steady)
  const errorMs = (): number => known.errorMs + elapsedMs(known) * driftMax
  const earliest = (): number =>
    Math.floor(Math.min(wall() + known.wallOffset, steady() + known.steadyOffset) - errorMs())
  const latest = (): number => Math.ceil(Math.max(wall() + known.wallOffset, steady() + known.steadyOffset) + errorMs())

  return {
    steady: () => Math.trunc(steady() + known.steadyOffset),
    now: () => Math.trunc(Math.max(wall() + known.wallOffset, steady() + known.steadyOffset)),
    earliest,
    latest,
    compare: async (readTime) => {
      const started = { wall: wall(), steady: steady() }
      const readAt = await readTime()
      const roundTripMs = elapsedMs(started)
      const time = readAt + roundTripMs / 2
      const error = roundTripMs / 2 + resolutionMs
      // A slow round trip is less precise than the last comparison, unless a clock was set since.
      const isMoreExact = 2 * error <= latest() - earliest()
      const contradicts = time - error > latest() || time + error < earliest()
      if (!isMoreExact && !contradicts) return
      const at = { wall: wall(), steady: steady() }
      known = { wallOffset: time - at.wall, steadyOffset: time - at.steady, ...at, errorMs: error }
    },
    warnings: () => {
      const { wallOffset, errorMs: error } = known
      if (error === Infinity || Math.abs(wallOffset) - error <= offsetMsMax) return []
      const seconds = (Math.abs(wallOffset) / 1000).toFixed(1)
      return [
        `The clock of this machine is ${seconds} s ${wallOffset > 0 ? 'behind' : 'ahead of'} the clock of Postgres`,
      ]
    },
  }
}
