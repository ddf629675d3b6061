import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { S3Credentials } from '@sluice/blobs/s3/client'
import { httpUrlOf, parseS3Url } from '@sluice/blobs/s3/url'
import type { BackupPlace } from '@sluice/event-store/backup'
import { folderOf } from '@sluice/runtime/file-url'

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

/** Throws when the backup would be among the files that it copies, or they among its own. */
export function requireApart(target: string, blobsUrl: string): void {
  const [a, b] = [placeText(target), placeText(blobsUrl)]
  if (a.startsWith(b) || b.startsWith(a)) {
    throw new Error('SLUICE_BLOBS_URL and the backup lie within each other: name another folder or prefix.')
  }
}

function placeText(url: string): string {
  if (url.startsWith('file:')) return `${folderOf(url)}/`
  const { endpoint, bucket, prefix } = parseS3Url(url)
  return `${endpoint ?? ''} ${bucket}/${prefix}`
}

/** Where ClickHouse writes its part: beside the others on S3, else on a disk of its own configuration. */
export function placeOf(url: string, options: { disk: string; backupId: string }): BackupPlace {
  return url.startsWith('s3:')
    ? { kind: 's3', url: httpUrlOf(parseS3Url(url), 'clickhouse') }
    : { kind: 'disk', disk: options.disk, name: options.backupId }
}
