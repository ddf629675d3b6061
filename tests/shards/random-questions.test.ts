import { afterAll, beforeAll, describe } from '@jest/globals'
import { type ClickHouseCluster, startClickHouseCluster } from '../support/engines/clickhouse-cluster.ts'
import { testFunnelTrials } from '../support/oracle/funnel-trials.ts'
import { testRetentionTrials } from '../support/oracle/retention-trials.ts'
import { testStatsTrials } from '../support/oracle/stats-trials.ts'
import { openShardedTestStore, type TestStore } from '../support/test-store.ts'

let cluster: ClickHouseCluster

beforeAll(async () => {
  cluster = await startClickHouseCluster()
})

afterAll(async () => {
  await cluster.stop()
})

const open = (): Promise<TestStore> => openShardedTestStore(cluster)

describe('stats', () => {
  testStatsTrials(open, { trialCount: 60 })
})

describe('cohorts and retention', () => {
  testRetentionTrials(open, { trialCount: 20 })
})

describe('funnels', () => {
  testFunnelTrials(open, { trialCount: 10 })
})
