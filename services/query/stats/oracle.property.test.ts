import { testHostileProfile, testStatsTrials } from '../../../tests/support/oracle/stats-trials.ts'
import { openTestStore } from '../../../tests/support/test-store.ts'

testStatsTrials(openTestStore, { trialCount: 340 })
testHostileProfile()
