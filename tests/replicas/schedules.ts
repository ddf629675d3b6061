import fc from 'fast-check'
import { rowKinds, rowOf } from './rows.ts'
import type { Schedule, Step } from './run.ts'

const writer = fc.nat(2)
const replica = fc.nat(2)
const choice = fc.nat(23)
/** Whether each replica is stopped from fetching; replicas that are not listed fetch. */
const lagging = fc.array(fc.boolean(), { maxLength: 3 })

/** Blocks of three partitions with few different events, so that copies of each are in several blocks. */
const log = fc.tuple(...[0, 1, 2].map(() => blocks()))

function blocks() {
  const row = fc.nat(rowKinds - 1).map(rowOf)
  return fc.array(fc.array(row, { minLength: 1, maxLength: 3 }), { maxLength: 4 })
}

function step<const Name extends Step['do'], Fields extends object>(
  weight: number,
  name: Name,
  fields: { [Key in keyof Fields]: fc.Arbitrary<Fields[Key]> },
) {
  return { weight, arbitrary: fc.record(fields).map((drawn) => ({ do: name, ...drawn })) }
}

/** How much more often than others the faults of a kind happen. */
interface Emphasis {
  frozen?: number
  replicas?: number
  keeper?: number
  operator?: number
  /** Single steps, instead of rounds of work in which all make progress. */
  single?: number
}

/** Mostly steps that make progress. Each fault is rare, so that runs reach the states in which it matters. */
function stepsWith({ frozen = 1, replicas = 1, keeper = 1, operator = 0, single = 1 }: Emphasis): fc.Arbitrary<Step> {
  return fc.oneof(
    step(40 * single, 'write', { writer, task: fc.nat(2), choice }),
    step(24 * single, 'serve', { nth: fc.nat(3), losesKeeper: fc.constant(false) }),
    step(16, 'fetch', { replica, nth: fc.nat(5) }),
    step(24, 'work', { writer, lagging, choice, rounds: fc.integer({ min: 1, max: 12 }) }),
    step(6, 'publish', { partition: fc.nat(2) }),
    step(4 + 2 * operator, 'pass', { ticks: fc.constantFrom(5, 30, 50, 110) }),
    step(1, 'forget tokens', {}),
    step(4, 'join', { writer, choice }),
    step(2, 'heartbeat', { writer }),
    step(8 * frozen, 'expire', { writer, choice }),
    step(6 * frozen, 'lose answer', { writer }),
    step(6 * replicas, 'cut', { writer, replica }),
    step(4 * replicas, 'mend', { writer, replica }),
    step(4 * replicas, 'stop', { replica }),
    step(4 * replicas, 'start', { replica }),
    step(2 * replicas, 'lose disk', { replica }),
    step(2 * keeper, 'serve', { nth: fc.nat(3), losesKeeper: fc.constant(true) }),
    step(4 * keeper, 'lose session', { replica }),
    step(4 * keeper, 'renew session', { replica }),
    step(2 * keeper, 'check parts', { replica }),
    step(2 * keeper, 'part', { replica, other: replica }),
    step(2 * keeper, 'unite', { replica, other: replica }),
    step(1 * operator, 'reset group', { choice }),
    step(1 * operator, 'recreate log', { choice }),
  )
}

/**
 * Runs with few faults of each kind, and runs with many of one or two kinds, up to 100 steps; a step of work is many.
 */
export const schedules: fc.Arbitrary<Schedule> = fc.oneof(
  ...[
    { operator: 1 },
    { frozen: 3 },
    { replicas: 3 },
    { keeper: 3 },
    { operator: 3, keeper: 5 },
    { frozen: 3, single: 3 },
  ].map((emphasis) =>
    fc.record({
      log,
      nextLog: log,
      published: fc.nat(4),
      steps: fc.array(stepsWith(emphasis), { maxLength: 100, size: 'max' }),
    }),
  ),
)
