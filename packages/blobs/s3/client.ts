import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import type { S3Address } from './url.ts'

export interface S3Credentials {
  accessKeyId: string
  secretAccessKey: string
}

/** Each attempt of a request ends when the server accepts no connection or no byte passes for this long. */
export interface S3Timeouts {
  connectMs: number
  idleMs: number
}

const defaultTimeouts: S3Timeouts = { connectMs: 3_000, idleMs: 10_000 }
/** The SDK repeats throttled and failed requests after 0.1 s and more. */
const attemptsMax = 3
/**
 * Requests under way; further ones wait. A slow reader of a blob holds one, so that there are more than the downloads
 * that a service has memory for (512: `responseBytesMax` and `downloadBytes` of packages/http/server-limits.ts).
 */
const socketsMax = 1_024

/**
 * The client for a bucket's server; it connects at the first request. Without `credentials`, the SDK looks for the
 * machine's own: AWS_… variables, ~/.aws, the roles of EKS, ECS and EC2.
 */
export function createClient(
  { region, endpoint, ca }: S3Address,
  credentials: S3Credentials | undefined,
  { connectMs, idleMs }: S3Timeouts = defaultTimeouts,
): S3Client {
  const config: S3ClientConfig = {
    region,
    maxAttempts: attemptsMax,
    // Many servers that speak S3 know none of the newer checksums; the signature covers the content of every upload.
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
