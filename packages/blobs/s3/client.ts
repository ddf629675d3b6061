import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import type { S3Address } from './url.ts'

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
}

/**
 * An attempt of a request ends when the server accepts no connection for `connectMs`, or no byte is transferred for
 * `idleMs`.
 */
export interface S3Timeouts {
  connectMs: number
  idleMs: number
}

const defaultTimeouts: S3Timeouts = { connectMs: 3_000, idleMs: 10_000 }
/** Maximum number of attempts. The SDK repeats throttled and failed requests after at least 0.1 s. */
const attemptsMax = 3
/**
 * Maximum number of concurrent requests; further ones wait. A slow reader of a blob occupies one. The number is
 * therefore higher than the number of downloads for which a service has memory (512: `responseBytesMax` and
 * `downloadBytes` of packages/http/server-limits.ts).
 */
const socketsMax = 1_024

/**
 * The client for a bucket's server. It connects at the first request. Without `credentials`, the SDK uses those of the
 * machine: AWS_… variables, ~/.aws, the roles of EKS, ECS and EC2.
 */
export function createClient(
  { region, endpoint, ca }: S3Address,
  credentials: S3Credentials | undefined,
  { connectMs, idleMs }: S3Timeouts = defaultTimeouts,
): S3Client {
  const config: S3ClientConfig = {
    region,
    maxAttempts: attemptsMax,
    // Many S3-compatible servers do not support the newer checksums. The signature covers the content of every upload.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: connectMs,
      socketTimeout: idleMs,
      httpAgent: { maxSockets: socketsMax },
      httpsAgent: { maxSockets: socketsMax, ...(ca !== undefined && { ca }) },
    },
    ...(credentials && { credentials }),
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
  }
  return new S3Client(config)
}
