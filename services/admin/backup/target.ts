import { existsSync } from 'node:fs'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { S3Credentials } from '@sluice/blobs/s3/client'
import { httpUrlOf, parseS3Url } from '@sluice/blobs/s3/url'
import type { BackupLocation } from '@sluice/event-store/backup'
import { folderOf } from '@sluice/runtime/folder-of'

export interface TargetOptions {
  /** The name of the address in errors: `The target`. */
  name: string
  /** SLUICE_BLOBS_URL. */
  blobsUrl: string
  credentials: S3Credentials | undefined
  /** Whether a folder that does not exist is an error. Otherwise it is created. */
  mustExist: boolean
}

/**
 * Opens the target or source of a backup. Throws an Error that says what to do when its URL is wrong, or when the
 * backup's folder contains that of SLUICE_BLOBS_URL or lies in it. Nothing is created then.
 */
export async function openTarget(
  url: string,
  { name, blobsUrl, credentials, mustExist }: TargetOptions,
): Promise<BlobStore> {
  if (!/^(file|s3):/.test(url)) {
    throw new Error(
      `${name} is file:<folder> or s3://bucket/prefix?region=eu-central-1, and a new one for each backup.`,
    )
  }
  try {
    requireApart(locationText(url), locationText(blobsUrl))
    if (mustExist && url.startsWith('file:') && !existsSync(folderOf(url))) {
      throw new Error(`there is no folder ${folderOf(url)}: correct the address.`)
    }
    return await openBlobStore(url, credentials && { credentials })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new Error(`${name}: ${message.replace(/^SLUICE_BLOBS_URL: /, '')}`, { cause: error })
  }
}

function requireApart(ofBackup: string, ofBlobs: string): void {
  if (ofBackup.startsWith(ofBlobs) || ofBlobs.startsWith(ofBackup)) {
    throw new Error('SLUICE_BLOBS_URL and the backup lie within each other: name another folder or prefix.')
  }
}

function locationText(url: string): string {
  if (url.startsWith('file:')) return `${folderOf(url)}/`
  const { endpoint, bucket, prefix } = parseS3Url(url)
  return `${endpoint ?? ''} ${bucket}/${prefix}`
}

/** Where ClickHouse writes its part: beside the others on S3, else on a disk of its own configuration. */
export function backupLocationOf(url: string, options: { disk: string; backupId: string }): BackupLocation {
  return url.startsWith('s3:')
    ? { kind: 's3', url: httpUrlOf(parseS3Url(url), 'clickhouse') }
    : { kind: 'disk', disk: options.disk, name: options.backupId }
}
