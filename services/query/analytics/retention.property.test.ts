import { testRetentionTrials } from '../../../tests/support/oracle/retention-trials.ts'
import { openTestStore } from '../../../tests/support/test-store.ts'

testRetentionTrials(openTestStore, { trialCount: 100 })
