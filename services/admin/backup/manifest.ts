import { hash } from 'node:crypto'
import { text } from 'node:stream/consumers'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openIfExists } from '@sluice/blobs/open-if-exists'
import type { Piece } from '@sluice/blobs/pieces'
import type { BackupLocation, ShardBackup } from '@sluice/event-store/backup'
import type { AppliedMigrations } from '@sluice/runtime/schema-versions'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'

/** Formats of backups of one server and of several shards. Builds that know only the first format refuse the second. */
export const manifestFormat = { oneServer: 1, shards: 2 } as const
const manifestName = 'manifest.json'

/** Committed offsets of the writers' consumer group in one lane's log, by partition; bigints as text. */
export interface LanePositions {
  logId: string
  next: readonly string[]
}

/** The list of a backup's contents. It is stored last, so that a backup without one was not finished. */
export interface Manifest {
  format: number
  backupId: string
  /** Unix ms of Postgres, read before anything else: what changed from then on may be missing in ClickHouse's part. */
  at: number
  /** `thisBuild` of the command. */
  build: number
  /** The events below these committed offsets are in ClickHouse's part. */
  lanes: { live: LanePositions; backfill: LanePositions }
  schemas: { postgres: AppliedMigrations; clickHouse: AppliedMigrations }
  /** Fingerprint of SLUICE_SECRETS_KEY, which the backup does not hold. */
  secretsKeyFingerprint: string
  clickHouse: {
    storeId: string
    database: string
    /** With several shards, the place that contains the backups of all shards. */
    place: BackupLocation
    bytes: number
    /** With several shards the backup of each, in their order. */
    pieces?: readonly ShardBackup[]
    /** The backup that this one, an incremental one, needs. */
    base: { backupId: string; target: string } | null
  }
  /** `at` in Unix ms: the dump has everything that was committed before. */
  postgres: Piece & { at: number }
  /** The list of the blobs, a `Piece` of JSON a line, with the names that they have in the backup. */
  blobs: Piece
}

/** Where ClickHouse has written its shards, in their order. */
export function shardLocations({ clickHouse: { place, pieces } }: Manifest): readonly BackupLocation[] {
  return pieces === undefined ? [place] : pieces.map((shard) => shard.place)
}

/** Identifies a key without showing it, so that two keys can be compared. */
export function fingerprintOf(secretsKey: string): string {
  return createSecretCipher(secretsKey).fingerprint('backup').toString('hex').slice(0, 16)
}

/** SLUICE_SECRETS_KEY, and SLUICE_SECRETS_KEY_PREVIOUS if it is set. */
export interface SecretsKeys {
  secretsKey: string
  previousSecretsKey: string | undefined
}

/** Throws an Error when neither is the key of the backup. */
export function requireKeyOf(
  { secretsKeyFingerprint }: Manifest,
  { secretsKey, previousSecretsKey = secretsKey }: SecretsKeys,
): void {
  if ([secretsKey, previousSecretsKey].map(fingerprintOf).includes(secretsKeyFingerprint)) return
  throw new Error(
    `SLUICE_SECRETS_KEY is not the key of the backup (fingerprint ${secretsKeyFingerprint}): set that one, as ` +
      'SLUICE_SECRETS_KEY_PREVIOUS if it was replaced, or no secret of a webhook or alert rule can be read.',
  )
}

/** Writes the manifest, with a checksum of itself; a backup without one was not finished. */
export async function writeManifest(target: Pick<BlobStore, 'write'>, manifest: Manifest): Promise<void> {
  const content = JSON.stringify({ sha256: checksum(manifest), manifest }, null, 2)
  await target.write(manifestName, [Buffer.from(`${content}\n`)])
}

/** Throws an Error, with what to do, when there is no manifest of a finished backup that this build can read. */
export async function readManifest(source: Pick<BlobStore, 'read'>, url: string): Promise<Manifest> {
  const content = await openIfExists(source, manifestName)
  if (content === undefined) {
    throw new Error(`${url} holds no ${manifestName}: the address is wrong, or the backup was not finished.`)
  }
  const { sha256, manifest } = parse(await text(content), url)
  if (!Object.values<number>(manifestFormat).includes(manifest.format)) {
    throw new Error(`${url} was written by a newer build (format ${String(manifest.format)}). Run that build.`)
  }
  if (checksum(manifest) !== sha256) throw new Error(`${manifestName} of ${url} is damaged: its checksum differs.`)
  return manifest
}

function parse(content: string, url: string): { sha256: string; manifest: Manifest } {
  try {
    const { sha256, manifest } = JSON.parse(content) as { sha256?: string; manifest?: Manifest }
    if (sha256 !== undefined && manifest !== undefined) return { sha256, manifest }
  } catch (error) {
    throw new Error(`${manifestName} of ${url} is damaged: it is not a JSON object.`, { cause: error })
  }
  throw new Error(`${manifestName} of ${url} is damaged: it has no manifest or no checksum.`)
}

function checksum(manifest: Manifest): string {
  return hash('sha256', JSON.stringify(manifest))
}
