import { describeWithS3, testS3 } from '../../../tests/support/engines/test-engines.ts'
import { describeBlobStore } from '../conformance/conformance.ts'

describeWithS3('with S3', () => {
  describeBlobStore('S3', {
    createPlace: () => {
      const { url, credentials } = testS3()
      return { url, options: { credentials } }
    },
  })
})
