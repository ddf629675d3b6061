import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { describeWithServices, runOneAtATime } from '../support/engines/test-engines.ts'
import { exactlyOnce, faultsOfShards, smallFaults } from './exactly-once.ts'
import { kafkaAway } from './kafka-away.ts'
import { poison } from './poison.ts'
import { postgresAway } from './postgres-away.ts'
import { redisAway } from './redis-away.ts'
import { type Rig, startRig } from './rig.ts'
import type { Outcome } from './scenario.ts'

runOneAtATime()

// The small runs of docs/faults.md; `npm run chaos` has the full ones. Time limits are longer here than the promised
// times, because on a busy machine correct software may exceed the latter.
describeWithServices('Sluice under faults', () => {
  let rig: Rig
  let said: string[] = []
  const say = (line: string): void => {
    said.push(line)
  }

  beforeAll(async () => {
    rig = await startRig()
  })

  afterAll(async () => {
    await rig.stop()
  })

  function expectNoProblems({ problems, details, figures }: Outcome): void {
    if (problems.length > 0) console.error(JSON.stringify({ figures, said, details }, undefined, 2))
    said = []
    expect(problems).toEqual([])
  }

  it('loses, duplicates and alters no acknowledged event while every part fails (R1)', async () => {
    const options = { seed: 20_261_121, events: 20_000, eventsPerSecond: 1_500 }
    expectNoProblems(await exactlyOnce(rig, { ...options, faults: smallFaults, say }))
  }, 1_200_000)

  it('refuses every request in time without Kafka, and keeps the acknowledged events (R2)', async () => {
    const options = { seed: 2, clients: 8, batchEvents: 25, outageSeconds: 4, refusalMsMax: 10_000, secondsOfLoad: 8 }
    expectNoProblems(await kafkaAway(rig, { ...options, say }))
  }, 1_200_000)

  it('turns rows that can not be stored into dead letters and delays no other rows (R3)', async () => {
    expectNoProblems(await poison(rig, { seed: 3, events: 5_000, say }))
  }, 1_200_000)

  it('accepts events without Redis, with limits in each process and sessions refused (R5)', async () => {
    expectNoProblems(await redisAway(rig, { seed: 5, secondsOfLoad: 8, say }))
  }, 1_200_000)

  it('accepts known keys without Postgres, and refuses a revoked key everywhere once it is back (R6)', async () => {
    const options = { seed: 6, outageSeconds: 6, revokedMsMax: 10_000, spareSeconds: 6 }
    expectNoProblems(await postgresAway(rig, { ...options, say }))
  }, 1_200_000)
})

describeWithServices('Sluice on two shards under faults', () => {
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig({ shards: 2 })
  })

  afterAll(async () => {
    await rig.stop()
  })

  it('loses, duplicates and misplaces no acknowledged event while servers and writers fail (R1)', async () => {
    const said: string[] = []
    const options = { seed: 7, events: 3_000, eventsPerSecond: 1_500, faults: faultsOfShards }
    const { problems, details, figures } = await exactlyOnce(rig, { ...options, say: (line) => said.push(line) })
    if (problems.length > 0) console.error(JSON.stringify({ figures, said, details }, undefined, 2))
    expect(problems).toEqual([])
  }, 1_200_000)
})
