import type { Credential } from '@sluice/access/credential'
import type { SessionResource } from '@sluice/contracts/session'
import type { Client } from '@sluice/http/route'

/**
 * The rights of a session or a key, with the end of both (Unix ms; null: never). Without a `collectUrl`, the origin
 * that the client uses takes events too.
 */
export function toSessionResource(
  { keyId, scopes, name, environment, siteIds }: Credential,
  expiresAt: number | null,
  { client, collectUrl }: { client: Client; collectUrl: string | undefined },
): SessionResource {
  return {
    expires_at: expiresAt,
    key_id: keyId,
    scopes,
    name,
    environment,
    site_ids: siteIds,
    collect_url: collectUrl ?? `${client.isSecure ? 'https' : 'http'}://${client.host ?? 'localhost'}`,
  }
}
