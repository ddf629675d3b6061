import { browserKeyNotAllowed } from '@sluice/runtime/errors'
import type { Credential } from './credential.ts'

/**
 * Throws 403 for a key that is meant for web pages, where everybody can read it (docs/http-interface.md#key-origins):
 * the rows of imports count against no limit, neither per key nor per address.
 */
export function requireImportKey({
  allowedOrigins,
  rateLimits,
}: Pick<Credential, 'allowedOrigins' | 'rateLimits'>): void {
  if (allowedOrigins) throw browserKeyNotAllowed('allowed_origins')
  if (rateLimits?.events_per_minute_per_address !== undefined)
    throw browserKeyNotAllowed('events_per_minute_per_address')
}
