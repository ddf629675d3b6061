import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { Rig } from './rig.ts'

/** An HTTP server of the test on a free port of 127.0.0.1. */
export interface LocalServer {
  /** `http://127.0.0.1:<port>`. */
  url: string
  stop(): void
}

export async function serveLocally(listener: RequestListener): Promise<LocalServer> {
  const server: Server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Uploads a file of events or users as `curl -F` does, and waits until the import is completed. */
async function uploadImport(
  rig: Rig,
  { siteId, type, name, content }: { siteId: string; type: 'events' | 'users'; name: string; content: string },
): Promise<string> {
  const form = new FormData()
  form.set('type', type)
  form.set('site_id', siteId)
  form.set('file', new Blob([content], { type: 'text/csv' }), name)
  const response = await fetch(`${rig.url}/api/v1/imports`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${rig.admin}` },
    body: form,
  })
  const { data, error } = (await response.json()) as { data: { job_id: string }; error?: string }
  if (!response.ok) throw new Error(`the import got ${response.status}: ${error ?? ''}`)
  await waitUntil(async () => {
    const { status } = await rig.call<{ status: string }>('GET', `/api/v1/imports/${data.job_id}`)
    return status === 'completed'
  }, 'the import is completed')
  return data.job_id
}

/**
 * One of each resource of a site: a cohort, imports of events and users with bad rows, an export and a scheduled one, a
 * webhook with a failed delivery, an alert rule, a restricted key and a revoked one. `text` is in every field that
 * takes any text, and in what the webhook's receiver answers.
 */
export async function addResources(rig: Rig, siteId: string, text = 'Résumé'): Promise<void> {
  const site = { site_id: siteId }
  const call = (path: string, body: object) => rig.call('POST', `/api/v1${path}`, body)
  const condition = { property: 'properties.plan', operator: 'not_equals', value: text }
  await call('/cohorts', {
    ...site,
    name: `Readers ${text}`,
    description: text,
    criteria: {
      type: 'and',
      conditions: [condition, { property: 'event_type', operator: 'equals', value: 'page_view' }],
    },
  })
  const quoted = `"${text.replaceAll('"', '""')}"`
  const now = Date.now()
  await uploadImport(rig, {
    siteId,
    type: 'events',
    name: `events ${text.replaceAll(/[^\w ]/g, '')}.csv`,
    content: `event_type,timestamp_ms,country\nclick,${now - 5_000},DE\n${quoted},soon,${quoted}\nclick,${now - 4_000},${quoted}\n`,
  })
  await uploadImport(rig, {
    siteId,
    type: 'users',
    name: 'users.csv',
    content: `user_id,email,name,company,plan\nu-1,${quoted},${quoted},${quoted},${quoted}\n`,
  })
  await call('/exports', { ...site, type: 'events', format: 'csv', name: `Events ${text}` })
  await call('/exports', {
    ...site,
    type: 'stats',
    format: 'json',
    metric: 'visitors',
    group_by: 'country',
    name: `Daily ${text}`,
    scheduled: { frequency: 'daily' },
  })
  const receiver = await serveLocally((_request, response) => {
    response.writeHead(500, { 'Content-Type': 'text/html' }).end(`<p>${text}</p>`)
  })
  const { webhook_id } = await rig.call<{ webhook_id: string }>('POST', '/api/v1/webhooks', {
    ...site,
    url: `${receiver.url}/?text=${encodeURIComponent(text)}`,
    events: ['alert', 'event_summary', 'import.completed'],
  })
  await call(`/webhooks/${webhook_id}/test`, {})
  await waitUntil(async () => {
    const { deliveries } = await rig.call<{ deliveries: { attempts: object[] }[] }>(
      'GET',
      `/api/v1/webhooks/${webhook_id}/deliveries`,
    )
    return deliveries.some(({ attempts }) => attempts.length > 0)
  }, 'the delivery was tried')
  receiver.stop()
  await call('/alerts', {
    ...site,
    name: `Few visitors ${text}`,
    description: text,
    condition: { metric: 'visitors', operator: 'less_than', threshold: 5, window: '1h', filter: [condition] },
    notification_type: 'webhook',
    notification_config: { url: 'http://127.0.0.1:9/', channel: text },
  })
  await rig.createKey({
    name: `Reader ${text}`,
    scopes: ['stats:read'],
    site_ids: [siteId],
    expires_at: now + 86_400_000,
  })
  const { key_id } = await rig.createKey({ name: `Lost ${text}`, environment: 'dev' })
  await rig.call('DELETE', `/api/v1/settings/keys/${key_id}`)
}
