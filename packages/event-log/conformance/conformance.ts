import { describe } from '@jest/globals'
import { describeBatches } from './batches.ts'
import { describeCommittedOffsets } from './committed-offsets.ts'
import { type ConformanceSubject, createHarness } from './harness.ts'
import { describeLanes } from './lanes.ts'
import { describeMembers } from './members.ts'
import { describePublishing } from './publishing.ts'

/** The requirements of every event log: each adapter runs the whole suite on a real engine. */
export function describeEventLog(name: string, subject: ConformanceSubject): void {
  describe(`an event log in ${name}`, () => {
    const harness = createHarness(subject)
    describePublishing(harness)
    describeCommittedOffsets(harness)
    describeMembers(harness)
    describeBatches(harness)
    describeLanes(harness)
  })
}
