import { AppError, errorCode, internalError, unavailable } from '@sluice/runtime/errors'
import type { S3Address } from './url.ts'

const secretVariable = 'SLUICE_S3_SECRET_ACCESS_KEY'
const credentials = `SLUICE_S3_ACCESS_KEY_ID and ${secretVariable}, or the machine's own credentials`
const messageLengthMax = 300
/**
 * Refusals with the status 400 that end with other credentials, or with another state of the bucket's encryption key.
 */
const refusedAccess = /^(ExpiredToken|InvalidToken|TokenRefreshRequired|KMS\..*)$/

/** The name of a failure: S3's, for example `NoSuchKey`, or the SDK's, for example `TimeoutError`. */
export function s3ErrorName(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'name' in error ? String(error.name) : undefined
}

/** The status of the response; undefined when there was none. */
export function s3ErrorStatus(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('$metadata' in error)) return undefined
  return (error.$metadata as { httpStatusCode?: number } | undefined)?.httpStatusCode
}

/**
 * The AppError for a failure of the SDK. `what` names the request: `GetObject of bucket/key`. Its cause is only the
 * name of the SDK's error, because that error contains headers and the signed text. AppErrors and the TypeErrors of
 * rules.ts are returned unchanged.
 */
export function toS3Error(address: S3Address, what: string, error: unknown): Error {
  if (error instanceof AppError || error instanceof TypeError) return error
  const name = s3ErrorName(error)
  const status = s3ErrorStatus(error)
  const failure = `${what}: ${describe(error)}`
  const cause = { code: errorCode(error) ?? name }
  const { bucket, region, endpoint } = address
  if (name === 'NoSuchBucket') {
    return internalError(`The bucket ${bucket} does not exist: check SLUICE_BLOBS_URL (${failure})`, cause)
  }
  if (name === 'InvalidAccessKeyId') {
    return internalError(`S3 does not know the access key: check SLUICE_S3_ACCESS_KEY_ID (${failure})`, cause)
  }
  if (name === 'SignatureDoesNotMatch') {
    return internalError(`S3 refuses the signature: check ${secretVariable} (${failure})`, cause)
  }
  if (name === 'PermanentRedirect' || name === 'AuthorizationHeaderMalformed') {
    return internalError(
      `The bucket ${bucket} is not in ${region}: check "region" of SLUICE_BLOBS_URL (${failure})`,
      cause,
    )
  }
  if (name === 'CredentialsProviderError') {
    // Retryable, because the machine's credentials come from a service that may be unavailable.
    return unavailable(`There are no credentials for S3: set ${credentials} (${failure})`, cause)
  }
  if (status === 401 || status === 403 || (name !== undefined && refusedAccess.test(name))) {
    return internalError(
      `S3 refuses access: check ${credentials}, and what the bucket permits them (${failure})`,
      cause,
    )
  }
  // The remaining refusals are permanent. The statuses 408 and 429 allow a repetition, and so does RequestTimeout,
  // which has the status 400.
  if (status !== undefined && status < 500 && status !== 408 && status !== 429 && name !== 'RequestTimeout') {
    return new AppError('internal', { message: 'Internal server error', internal: failure, cause })
  }
  return unavailable(`S3 at ${endpoint ?? region} (SLUICE_BLOBS_URL) does not answer: ${failure}`, cause)
}

function describe(error: unknown): string {
  const message = typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : ''
  const names = [s3ErrorStatus(error), s3ErrorName(error), errorCode(error)].filter((each) => each !== undefined)
  return `${[...new Set(names)].join(' ')} ${message}`.slice(0, messageLengthMax).trim()
}
