import { testFunnelTrials } from '../../../tests/support/oracle/funnel-trials.ts'
import { openTestStore } from '../../../tests/support/test-store.ts'

testFunnelTrials(openTestStore, { trialCount: 60 })
