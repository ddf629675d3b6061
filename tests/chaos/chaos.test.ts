import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { describeWithServices } from '../harness/describe-with-services.ts'
import { exactlyOnce, smallFaults } from './exactly-once.ts'
import { kafkaAway } from './kafka-away.ts'
import { poison } from './poison.ts'
import { postgresAway } from './postgres-away.ts'
import { redisAway } from './redis-away.ts'
import { startRig, type Rig } from './rig.ts'
import type { Outcome } from './scenario.ts'

// The small runs of docs/faults.md; `npm run chaos` has the full ones. Bounds in time are wider here than the promises,
// which a busy machine could break without a fault of ours.
describeWithServices('with everything failing', () => {
  let rig: Rig
  let said: string[] = []
  const say = (line: string): void => {
    said.push(line)
  }

  beforeAll(async () => {
    rig = await startRig()
  }, 120_000)

  afterAll(async () => {
    await rig.stop()
  }, 60_000)

  function expectNoProblems({ problems, details, figures }: Outcome): void {
    if (problems.length > 0) console.error(JSON.stringify({ figures, said, details }, undefined, 2))
    said = []
    expect(problems).toEqual([])
  }

  it('R1: nothing that was acknowledged is lost, stored twice or altered', async () => {
    const options = { seed: 20_261_121, events: 20_000, eventsPerSecond: 1_500 }
    expectNoProblems(await exactlyOnce(rig, { ...options, faults: smallFaults, say }))
  }, 600_000)

  it('R2: without Kafka every request is refused in time, and what was acknowledged survives', async () => {
    expectNoProblems(await kafkaAway(rig, { seed: 2, outageSeconds: 4, refusalMsMax: 10_000, say }))
  }, 300_000)

  it('R3: rows that can not be stored become dead letters, and hold nothing up', async () => {
    expectNoProblems(await poison(rig, { seed: 3, events: 5_000, say }))
  }, 300_000)

  it('R5: without Redis events go on, limits hold in each process, sessions fail closed', async () => {
    expectNoProblems(await redisAway(rig, { seed: 5, say }))
  }, 300_000)

  it('R6: without Postgres known keys go on; with it back a revoked key is refused everywhere', async () => {
    expectNoProblems(await postgresAway(rig, { seed: 6, outageSeconds: 6, revokedMsMax: 10_000, say }))
  }, 300_000)
})
