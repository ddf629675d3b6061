import { S3ServiceException } from '@aws-sdk/client-s3'
import { expect, test } from '@jest/globals'
import { toS3Error } from './s3-error.ts'
import { parseS3Url } from './url.ts'

const address = parseS3Url('s3://bucket/prefix?region=eu-central-1')

/** What becomes of a refusal with the status 400. */
function refusal(name: string): Error {
  const metadata = { httpStatusCode: 400 }
  return toS3Error(
    address,
    'PutObject of bucket/a',
    new S3ServiceException({ name, $fault: 'client', $metadata: metadata }),
  )
}

test.each(['ExpiredToken', 'InvalidToken', 'TokenRefreshRequired', 'KMS.DisabledException'])(
  '%s is for an operator to mend, and no fault of a job',
  (name) => {
    expect(refusal(name)).toMatchObject({ code: 'internal', needsOperator: true })
  },
)

test('a time-out of S3, which has the status 400, is repeated', () => {
  expect(refusal('RequestTimeout')).toMatchObject({ code: 'unavailable', retryable: true })
})

test('another refusal is final', () => {
  expect(refusal('EntityTooLarge')).toMatchObject({ code: 'internal', retryable: false, needsOperator: false })
})
