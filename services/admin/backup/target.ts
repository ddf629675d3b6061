import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { S3Credentials } from '@sluice/blobs/s3/client'
import { httpUrlOf, parseS3Url } from '@sluice/blobs/s3/url'
import type { BackupPlace } from '@sluice/event-store/backup'

/** Opens the place of a backup. Throws an Error that calls it `name` when its URL is wrong. */
export async function openTarget(
  url: string,
  name: string,
  credentials: S3Credentials | undefined,
): Promise<BlobStore> {
  if (!/^(file|s3):/.test(url)) {
    throw new Error(
      `${name} is file:<folder> or s3://bucket/prefix?region=eu-central-1, and a new one for each backup.`,
    )
  }
  try {
    return await openBlobStore(url, credentials && { credentials })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new Error(message.replace('SLUICE_BLOBS_URL', name), { cause: error })
  }
}

/** Where ClickHouse writes its part: beside the others on S3, else on a disk of its own configuration. */
export function placeOf(url: string, options: { disk: string; backupId: string }): BackupPlace {
  return url.startsWith('s3:')
    ? { kind: 's3', url: httpUrlOf(parseS3Url(url), 'clickhouse') }
    : { kind: 'disk', disk: options.disk, name: options.backupId }
}
