import { queueDeliveries } from '@sluice/postgres/deliveries'
import { encryptTarget, insertEndpoint, type NewEndpoint } from '@sluice/postgres/endpoints'
import type { Postgres } from '@sluice/postgres/open'
import { newId } from '@sluice/runtime/ids'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { testSecretsKey } from './secrets-key.ts'

export const testSecrets = createSecretCipher(testSecretsKey)

/** Stores a webhook as the query service does; returns its id. */
export async function addWebhook(
  { db }: Pick<Postgres, 'db'>,
  {
    url = 'http://127.0.0.1:9/hook',
    secret = 'a secret',
    at = Date.now(),
    ...parts
  }: Partial<NewEndpoint> & { url?: string; secret?: string; at?: number } = {},
): Promise<string> {
  const { endpointId } = await insertEndpoint(
    db,
    {
      endpointId: newId('wh'),
      siteId: 'shop',
      owner: 'webhook',
      channel: 'webhook',
      ...encryptTarget(testSecrets, parts.channel ?? 'webhook', url),
      encryptedSecret: testSecrets.encrypt(secret),
      events: ['alert', 'import.completed', 'export.completed'],
      active: true,
      summaryInterval: '1d',
      keyId: 'key_1',
      environment: 'prod',
      ...parts,
    },
    at,
  )
  return endpointId
}

/** Queues a delivery of a webhook; returns its id. */
export async function addDelivery({ db }: Pick<Postgres, 'db'>, endpointId: string, at = Date.now()): Promise<string> {
  const source = newId('source')
  const body = { event_type: 'alert', timestamp: at, site_id: 'shop', data: { source } }
  const [id] = await queueDeliveries(
    db,
    [{ endpointId, source, kind: 'alert', body: Buffer.from(JSON.stringify(body)) }],
    at,
  )
  if (id === undefined) throw new Error('nothing was queued')
  return id
}
