import type { Environment, Scope } from '@sluice/contracts/scopes'
import type { ColumnType, Generated } from 'kysely'

/** Rows as Postgres holds them; the migrations are the truth, this is their shape in TypeScript. */
export interface Tables {
  api_keys: ApiKeysTable
  sites: SitesTable
}

/** A column that inserts may leave out and updates may set. */
type Defaulted<T> = ColumnType<T, T | undefined, T>

interface ApiKeysTable {
  key_id: string
  name: string
  environment: Environment
  scopes: Scope[]
  /** SHA-256 in hex; the key itself is nowhere. */
  hash: string
  hint: string
  /** True for keys made by SLUICE_ADMIN_KEY, a first start or `npm run admin-key`. */
  bootstrap: Defaulted<boolean>
  created_at: Generated<Date>
  last_used_at: Defaulted<Date | null>
  expires_at: Defaulted<Date | null>
  revoked_at: Defaulted<Date | null>
  /** Set by whatever changes what a cached key may do; processes poll by it. */
  changed_at: Defaulted<Date>
}

interface SitesTable {
  site_id: string
  created_at: Generated<Date>
  /** The key whose event or request was the first to name it; null: none, it was found by its events. */
  registered_by: Defaulted<string | null>
}
