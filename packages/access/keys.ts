import type { Page } from '@sluice/contracts/paging'
import type { SiteIds } from '@sluice/contracts/scopes'
import type { ChangeCursor, Changes } from './change-cursor.ts'
import type { Credential } from './credential.ts'

/** A key's record (docs/http-interface.md#key-record), without the key: only its SHA-256 is kept. */
export interface KeyRecord extends Credential {
  hash: string
  hint: string
  /** Unix ms. */
  createdAt: number
  /** Unix ms; null: the key was not used. */
  lastUsedAt: number | null
  /** Unix ms; null: the key is not revoked. */
  revokedAt: number | null
  /** Id of the key that replaces it; null: it was not rotated. */
  rotatedTo: string | null
}

/** Why a key can't be used at `now` (Unix ms); undefined: it can. A key is no longer usable at its expiry. */
export function unusableReason(
  { revokedAt, expiresAt }: Pick<KeyRecord, 'revokedAt' | 'expiresAt'>,
  now: number,
): 'revoked' | 'expired' | undefined {
  if (revokedAt !== null) return 'revoked'
  if (expiresAt !== null && expiresAt <= now) return 'expired'
  return undefined
}

/** A key that is to be stored. */
export interface NewKey extends Omit<KeyRecord, 'createdAt' | 'lastUsedAt' | 'revokedAt' | 'rotatedTo'> {
  /** True for a key that a start or `npm run admin-key` created; `npm run admin-key` revokes all earlier ones. */
  bootstrap: boolean
}

/** The fields of a key that may change. */
export type KeyChanges = Partial<
  Pick<KeyRecord, 'name' | 'scopes' | 'siteIds' | 'rateLimits' | 'allowedOrigins' | 'expiresAt'>
>

/** The result of a rotation. */
export interface Rotation {
  /** The new key; its other fields are those of the old key. */
  replacement: Pick<KeyRecord, 'keyId' | 'hash' | 'hint'>
  /** The expiry of the old key in Unix ms, unless it expires earlier. */
  oldExpiresAt: number
}

/**
 * The key of the request. It registers the new sites. A key that is bound to sites finds only keys whose sites are
 * among its own.
 */
export interface ActingKey {
  keyId: string
  siteIds: SiteIds
}

/** API keys in Postgres. Every method throws AppError `unavailable` while Postgres is unavailable. */
export interface KeyStore {
  /**
   * Stores a new key and registers its sites, with `makerId` as the key that registered them (null: a start). Returns
   * undefined, and changes nothing, when the hash is stored already.
   */
  create(key: NewKey, makerId: string | null): Promise<KeyRecord | undefined>
  /** Resolves to true when any key is stored, revoked ones included. */
  hasAny(): Promise<boolean>
  findByHash(hash: string): Promise<KeyRecord | undefined>
  /** The newest key with the scope `admin` that is bound to no sites, not revoked and not expired. */
  newestAdmin(): Promise<KeyRecord | undefined>
  /** Returns the stored ones among the keys, in any order. */
  findByHashes(hashes: readonly string[]): Promise<readonly KeyRecord[]>
  /**
   * Undefined for an unknown id, and unless the key is bound to sites that are all among `siteIds` (null: every key is
   * found).
   */
  find(keyId: string, siteIds: SiteIds): Promise<KeyRecord | undefined>
  /** Lists the keys that `find` finds, newest first; `total` counts all of them. */
  list(page: Page, siteIds: SiteIds): Promise<{ keys: KeyRecord[]; total: number }>
  /**
   * Changes a key. `change` gets the stored key, which is locked meanwhile, and returns the changes; when it throws,
   * nothing is changed and the error is passed on. Undefined where `find` returns undefined.
   */
  update(keyId: string, actor: ActingKey, change: (key: KeyRecord) => KeyChanges): Promise<KeyRecord | undefined>
  /**
   * Creates a key with the same rights and sets the expiry of the old one, in one transaction; returns the new key.
   * `rotate` is called like `change` in `update`.
   */
  rotate(keyId: string, siteIds: SiteIds, rotate: (key: KeyRecord) => Rotation): Promise<KeyRecord | undefined>
  /** Revokes a key; returns it with the time of its first revocation. Undefined where `find` returns undefined. */
  revoke(keyId: string, siteIds: SiteIds): Promise<KeyRecord | undefined>
  /** Revokes every other key that a start or `npm run admin-key` made; returns their number. */
  revokeBootstrapKeysExcept(keyId: string): Promise<number>
  /**
   * Returns the keys whose rights have changed since the poll that returned `since`; no keys if `since` is undefined.
   */
  changedSince(since: ChangeCursor | undefined): Promise<Changes<KeyRecord>>
  /**
   * Updates `last_used_at` where it is more than 20 s behind, because many processes use the same keys. Does not wait
   * for locks. `lastUsed` holds Unix ms by key id. Returns the ids of keys that others have locked; the caller passes
   * them again later.
   */
  markUsed(lastUsed: ReadonlyMap<string, number>): Promise<readonly string[]>
}
