import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { synchronizedClock } from './synchronized-clock.ts'

const noon = Date.UTC(2026, 0, 15, 12)

/** A machine with two clocks beside the true time, which Postgres knows. */
function machine({ ahead = 0, drift = 0 }: { ahead?: number; drift?: number } = {}) {
  let time = noon
  let wall = noon + ahead
  let steady = 0
  const pass = (ms: number): void => {
    time += ms
    wall += ms * (1 + drift)
    steady += ms * (1 + drift)
  }
  const clock = synchronizedClock({ wall: () => Math.trunc(wall), steady: () => steady })
  return {
    clock,
    time: () => time,
    pass,
    /** The machine sleeps: only the wall clock advances. */
    sleep: (ms: number) => {
      time += ms
      wall += ms
    },
    /** Somebody sets the wall clock. */
    set: (ms: number) => {
      wall += ms
    },
    /** Compares the clocks in a round trip that takes `there` ms to Postgres and `back` ms from it. */
    compare: (there: number, back: number, meanwhile: () => void = () => undefined) =>
      clock.compare(() => {
        pass(there)
        const read = time
        meanwhile()
        pass(back)
        return Promise.resolve(read)
      }),
  }
}

test('a clock shows the time of its machine, and no bounds, until it was compared', () => {
  const { clock } = machine({ ahead: 5_000 })
  expect(clock.now()).toBe(noon + 5_000)
  expect(clock.earliest()).toBe(-Infinity)
  expect(clock.latest()).toBe(Infinity)
  expect(clock.warnings()).toStrictEqual([])
})

test.each([-7_000, 7_000])(
  'a machine that is %i ms ahead shows the time of Postgres after a comparison',
  async (ahead) => {
    const it = machine({ ahead })
    await it.compare(2, 2)
    expect(it.clock.now()).toBe(it.time())
    it.pass(1_000)
    expect(it.clock.now()).toBe(it.time())
  },
)

test('half of the round trip is the error, a slower round trip changes nothing, and a faster one does', async () => {
  const it = machine()
  await it.compare(0, 20)
  const error = () => it.clock.latest() - it.clock.earliest()
  expect(error()).toBeGreaterThanOrEqual(20)
  expect(error()).toBeLessThanOrEqual(26)
  await it.compare(0, 400)
  expect(error()).toBeLessThanOrEqual(26)
  await it.compare(1, 1)
  expect(error()).toBeLessThanOrEqual(8)
})

test('while Postgres is unavailable, the last comparison holds and the bounds grow by 0.1 ms a second', async () => {
  const it = machine({ ahead: 3_000 })
  await it.compare(1, 1)
  await expect(it.clock.compare(() => Promise.reject(new Error('away')))).rejects.toThrow('away')
  it.pass(1_000_000)
  expect(it.clock.now()).toBe(it.time())
  expect(it.clock.latest() - it.time()).toBeGreaterThanOrEqual(100)
  expect(it.clock.latest() - it.time()).toBeLessThanOrEqual(105)
})

test('the time goes on at once after a sleep of the machine, and does not follow a wall clock that is set back', async () => {
  const it = machine()
  await it.compare(1, 1)
  it.sleep(3_600_000)
  expect(it.clock.now()).toBe(it.time())
  expect(it.clock.steady()).toBe(it.time() - 3_600_000)
  await it.compare(1, 1)
  expect(it.clock.steady()).toBe(it.time())
  it.set(-3_600_000)
  expect(it.clock.now()).toBe(it.time())
})

test('a clock of Postgres that was set is followed', async () => {
  const it = machine()
  await it.compare(1, 1)
  for (const set of [-60_000, 90_000]) {
    const changed = noon + set
    await it.clock.compare(() => Promise.resolve(changed))
    expect(it.clock.now()).toBe(changed)
  }
})

test('a machine that is more than a second off is a warning', async () => {
  const it = machine({ ahead: -3_240 })
  await it.compare(1, 1)
  expect(it.clock.warnings()).toStrictEqual(['The clock of this machine is 3.2 s behind the clock of Postgres'])
  it.set(2_400)
  await it.compare(1, 1)
  expect(it.clock.warnings()).toStrictEqual([])
  it.set(2_000)
  await it.compare(1, 1)
  expect(it.clock.warnings()).toStrictEqual(['The clock of this machine is 1.2 s ahead of the clock of Postgres'])
})

const ms = fc.oneof(fc.nat(20), fc.nat(3_000))
const step = (disturbance: 'sleep' | 'set') =>
  fc.oneof(
    fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(100_000) }),
    fc.record({
      kind: fc.constant(disturbance),
      ms: disturbance === 'set' ? fc.integer({ min: -9_000, max: 9_000 }) : ms,
    }),
    fc.record({
      kind: fc.constant('compare' as const),
      there: ms,
      back: ms,
      meanwhile: disturbance === 'set' ? fc.integer({ min: -900, max: 900 }) : ms,
    }),
  )

test.each(['sleep', 'set'] as const)(
  'the time of Postgres is within the bounds, whenever a %s disturbs the clocks',
  async (kind) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step(kind), { maxLength: 40 }),
        fc.integer({ min: -5_000, max: 5_000 }),
        fc.integer({ min: -90, max: 90 }),
        async (script, ahead, drift) => {
          const it = machine({ ahead, drift: drift / 1e6 })
          for (const each of script) {
            if (each.kind === 'pass') it.pass(each.ms)
            else if (each.kind === 'compare') {
              await it.compare(each.there, each.back, () => it[kind](each.meanwhile))
            } else it[each.kind](each.ms)
            expect(it.clock.earliest()).toBeLessThanOrEqual(it.time())
            expect(it.clock.latest()).toBeGreaterThanOrEqual(it.time())
            expect(it.clock.steady()).toBeLessThanOrEqual(it.clock.latest())
            expect(it.clock.steady()).toBeGreaterThanOrEqual(it.clock.earliest())
          }
          await it.compare(1, 1)
          expect(Math.abs(it.clock.now() - it.time())).toBeLessThanOrEqual(3)
        },
      ),
      { numRuns: 500 },
    )
  },
)
