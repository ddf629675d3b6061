import { describe } from '@jest/globals'
import { type ConformanceSubject, createHarness } from './harness.ts'
import { describeListing } from './listing.ts'
import { describeParts } from './parts.ts'
import { describeReading } from './reading.ts'
import { describeWriting } from './writing.ts'

/** The requirements of every blob store: each adapter runs the whole suite on a real engine. */
export function describeBlobStore(name: string, subject: ConformanceSubject): void {
  describe(`a blob store in ${name}`, () => {
    const harness = createHarness(subject)
    describeWriting(harness)
    describeReading(harness)
    describeParts(harness)
    describeListing(harness)
  })
}
