import type { Page } from '@sluice/contracts/paging'
import type { SiteIds } from '@sluice/contracts/scopes'
import type { SiteSettings } from '@sluice/contracts/sites'
import type { ChangeCursor, Changes } from './change-cursor.ts'
import type { Credential } from './credential.ts'

/** A site's record (docs/http-interface.md#site-record), without the times of its first and last event. */
export interface SiteRecord {
  siteId: string
  settings: SiteSettings
  /** Unix ms. */
  createdAt: number
}

/** Sites in Postgres. Every method throws AppError `unavailable` while Postgres is unavailable. */
export interface SiteStore {
  find(siteId: string): Promise<SiteRecord | undefined>
  /** Lists the sites among `siteIds`, sorted by the bytes of their id; `total` counts all of them. */
  list(page: Page, siteIds: SiteIds): Promise<{ sites: SiteRecord[]; total: number }>
  /**
   * Registers a site, by the key `keyId`. Returns undefined, and changes nothing, for a site that is registered
   * already.
   */
  create(siteId: string, settings: Partial<SiteSettings>, keyId: string): Promise<SiteRecord | undefined>
  /**
   * Returns the site if `create` has stored it with these arguments less than a minute ago, and nothing was changed
   * since. Call it when `create` returned undefined after an attempt whose outcome is unknown.
   */
  findCreated(siteId: string, settings: Partial<SiteSettings>, keyId: string): Promise<SiteRecord | undefined>
  /** Changes the settings that are present; undefined for a site that is not registered. */
  update(siteId: string, settings: Partial<SiteSettings>): Promise<SiteRecord | undefined>
  /** Registers the new ones among the sites; the others stay as they are. */
  register(siteIds: readonly string[]): Promise<void>
  /**
   * Registers the new ones among the sites by a key. A key may register 1,000 sites in any 24 hours, so only the first
   * ones in the given order may be registered (docs/http-interface.md#new-sites). The limit is exact for any number of
   * concurrent processes.
   */
  registerFor(keyId: string, siteIds: readonly string[]): Promise<Registration>
  /** Lists the sites that do not keep their events for ever. */
  listRetention(): Promise<{ siteId: string; retentionDays: number }[]>
  /** Returns the registered ones among the sites, with the days that their events are kept (null: for ever). */
  findRegistered(siteIds: readonly string[]): Promise<ReadonlyMap<string, number | null>>
  /**
   * Returns the sites that an administrator has named or changed since the poll that returned `since`; no sites if
   * `since` is undefined. Sites that events registered have no settings and are left out. `deleted` names the sites
   * whose deletion was requested since then; they may have been registered again.
   */
  changedSince(since: ChangeCursor | undefined): Promise<Changes<ChangedSite> & { deleted: readonly string[] }>
}

/** The outcome of registering the sites of events. */
export interface Registration {
  /** Sites that were neither registered before nor by this call. */
  refused: readonly string[]
  /** Seconds until the key may register another site. */
  retryAfterSeconds: number
  /** Days that events are kept, for sites that were registered before and do not keep their events for ever. */
  retentionDays: ReadonlyMap<string, number>
}

/** A site whose settings have changed, as the caches of gateways read it. */
export interface ChangedSite {
  siteId: string
  retentionDays: number | null
}

/** The request that a site is looked up for. The look-up takes its turn among the statements of the request's key. */
export interface SiteRequest {
  credential: Pick<Credential, 'keyId' | 'siteIds'>
  /** Aborts when the client leaves. */
  signal: AbortSignal
}

/** Finds the site that a request names. */
export interface SiteLookup {
  /**
   * Returns the record of a registered site and, unless only administrators register sites, of a site with stored
   * events; undefined for any other site. Throws AppError `unavailable` while an engine that it needs is unavailable.
   */
  find(siteId: string, request: SiteRequest): Promise<SiteRecord | undefined>
  /**
   * Like `find`, for a request that creates a record for the site: an unknown site is registered, unless the key is
   * bound to sites or only administrators register sites. Throws AppError `rate_limited` beyond the key's limit of new
   * sites a day.
   */
  findOrRegister(siteId: string, request: SiteRequest): Promise<SiteRecord | undefined>
}

/** The settings of a site that statistics use. */
export type SiteDefaults = Pick<SiteSettings, 'timezone' | 'conversion_event'>
