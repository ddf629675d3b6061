import { createHmac } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { leaseMetrics } from '@sluice/leases/metrics'
import { openOutbound } from '@sluice/outbound/open-outbound'
import type { AttemptResult, Outbound } from '@sluice/outbound/outbound'
import { queueDeliveries } from '@sluice/postgres/deliveries'
import { deliveryQueue } from '@sluice/postgres/delivery-queue'
import { encryptTarget, updateEndpoint } from '@sluice/postgres/endpoints'
import { openPostgres } from '@sluice/postgres/open'
import { webhookStore } from '@sluice/postgres/webhooks'
import { createMetrics, type Metrics } from '@sluice/runtime/metrics'
import type { Component } from '@sluice/runtime/supervisor'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../../tests/support/captured-logger.ts'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { type VirtualClock, virtualClock } from '../../../tests/support/virtual-clock.ts'
import { addDelivery, addWebhook, testSecrets } from '../../../tests/support/webhooks.ts'
import type { WorkerEngines } from '../worker-task.ts'
import { deliveryGauges, removeOldDeliveries } from './deliveries.ts'
import { deliveryMetrics } from './metrics.ts'
import { deliverySender } from './sender.ts'

const noon = Date.UTC(2042, 5, 1, 12)

interface Received {
  path: string
  headers: Record<string, string | string[] | undefined>
  body: string
}

let postgres: TestPostgres
let server: Server
let base: string
let received: Received[]
/** Status and headers of the receiver's responses. */
let answer: [status: number, headers?: Record<string, string>]
let clock: VirtualClock
let mails: Parameters<Outbound['mail']>[0][]
/** What the SMTP server says to the next e-mails, instead of taking them. */
let mailOutcomes: Partial<AttemptResult>[]
let stopping: AbortController
let running: Promise<void> | undefined
/** The sender, and what makes its takes fail. */
let sender: { component: Component; breakTakes: (error: Error | undefined) => void }
let stop: () => Promise<void>
let log: ReturnType<typeof capturedLogger>
let metrics: Metrics

beforeAll(async () => {
  postgres = await openTestPostgres()
  server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      received.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() })
      response.writeHead(...answer).end('answered')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(async () => {
  server.close()
  await postgres.drop()
})

beforeEach(() => {
  received = []
  mails = []
  mailOutcomes = []
  answer = [200]
  clock = virtualClock(noon)
  log = capturedLogger()
  const outbound = openOutbound({ allowedNetworks: ['127.0.0.0/8'] })
  metrics = createMetrics()
  stopping = new AbortController()
  const queue = deliveryQueue(postgres)
  let broken: Error | undefined
  const component = deliverySender({
    queue: { ...queue, take: (...limits) => (broken ? Promise.reject(broken) : queue.take(...limits)) },
    outbound: {
      post: (...call) => outbound.post(...call),
      mail: (message) => {
        mails.push(message)
        return Promise.resolve({
          succeeded: true,
          status: 250,
          latencyMs: 1,
          response: '250 OK',
          error: null,
          retryAfterMs: null,
          ...mailOutcomes.shift(),
        })
      },
    },
    secrets: testSecrets,
    clock,
    logger: log.logger,
    metrics: deliveryMetrics(metrics),
    leaseMetrics: leaseMetrics(metrics),
    random: () => 0.5,
  })
  sender = {
    component,
    breakTakes: (error) => {
      broken = error
    },
  }
  running = component.run?.(stopping.signal)
  stop = async () => {
    stopping.abort()
    await running
    await outbound.close()
  }
})

afterEach(async () => {
  await stop()
  await postgres.db.deleteFrom('endpoints').execute()
})

const find = async (deliveryId: string) => {
  const { endpoint_id } = await postgres.db
    .selectFrom('deliveries')
    .select('endpoint_id')
    .where('delivery_id', '=', deliveryId)
    .executeTakeFirstOrThrow()
  const found = await webhookStore(postgres).findDelivery(endpoint_id, deliveryId)
  if (!found) throw new Error('no such delivery')
  return found
}

/** Lets the sender look for what is due until the delivery has had so many attempts. */
async function attempted(deliveryId: string, attempts = 1) {
  await waitUntil(async () => {
    await clock.advance(1_000)
    return (await find(deliveryId)).attempts.length >= attempts
  }, `attempt ${attempts}`)
  return find(deliveryId)
}

const endpoint = (endpointId: string) =>
  postgres.db.selectFrom('endpoints').selectAll().where('endpoint_id', '=', endpointId).executeTakeFirstOrThrow()

const hmac = (secret: string, { headers, body }: Received) =>
  createHmac('sha256', secret)
    .update(`${String(headers['x-svc-timestamp'])}.${body}`)
    .digest('hex')

/** The lines of the metrics of deliveries whose names begin so. */
const figures = async (name: string) =>
  (await metrics.metrics()).split('\n').filter((line) => line.startsWith(`sluice_worker_delivery_${name}`))

test('attempts are counted by channel and outcome, with the delay of first ones', async () => {
  expect(await figures('attempts_total')).toStrictEqual(
    ['webhook', 'slack', 'email'].flatMap((channel) =>
      ['succeeded', 'failed', 'lost'].map(
        (outcome) => `sluice_worker_delivery_attempts_total{channel="${channel}",outcome="${outcome}"} 0`,
      ),
    ),
  )
  const webhookId = await addWebhook(postgres, { url: `${base}/hook` })
  await attempted(await addDelivery(postgres, webhookId, noon))
  answer = [500]
  await attempted(await addDelivery(postgres, webhookId, clock.now() - 20_000))
  expect((await figures('attempts_total')).slice(0, 2)).toStrictEqual([
    'sluice_worker_delivery_attempts_total{channel="webhook",outcome="succeeded"} 1',
    'sluice_worker_delivery_attempts_total{channel="webhook",outcome="failed"} 1',
  ])
  expect(await figures('delay_seconds')).toStrictEqual(
    expect.arrayContaining([
      'sluice_worker_delivery_delay_seconds_bucket{le="10"} 1',
      'sluice_worker_delivery_delay_seconds_bucket{le="30"} 2',
      'sluice_worker_delivery_delay_seconds_count 2',
    ]),
  )
})

test('retries, requested deliveries and those of a failing receiver have no delay', async () => {
  const late = () => clock.now() - 3_600_000
  const delays = async () => (await figures('delay_seconds_count'))[0]
  answer = [500]
  const webhookId = await addWebhook(postgres, { url: base })
  const deliveryId = await addDelivery(postgres, webhookId, noon)
  await attempted(deliveryId)
  const firstOnly = 'sluice_worker_delivery_delay_seconds_count 1'
  expect(await delays()).toBe(firstOnly)
  await postgres.db
    .updateTable('deliveries')
    .set({ due_at: new Date(late()) })
    .execute()
  await attempted(deliveryId, 2)
  expect(await delays()).toBe(firstOnly)

  const requested = { source: 'test', kind: 'webhook.test', body: Buffer.from('{}') } as const
  await attempted((await webhookStore(postgres).queueRequested({ webhookId, ...requested }, late())) ?? '')
  expect(await endpoint(webhookId)).toMatchObject({ failures_in_row: 3 })
  await attempted(await addDelivery(postgres, webhookId, late()))
  answer = [200]
  await webhookStore(postgres).replay(webhookId, deliveryId, late())
  await attempted(deliveryId, 3)
  expect(await endpoint(webhookId)).toMatchObject({ failures_in_row: 0 })
  await webhookStore(postgres).recover(webhookId, 0, late())
  await waitUntil(async () => {
    await clock.advance(1_000)
    const { total } = await webhookStore(postgres).listDeliveries(webhookId, 'succeeded', { limit: 1, offset: 0 })
    return total === 3
  }, 'all are delivered')
  expect(await delays()).toBe(firstOnly)
})

test('a delivery arrives as it was queued, signed, under its id', async () => {
  const webhookId = await addWebhook(postgres, { url: `${base}/hook?a=b`, secret: 'top' })
  const deliveryId = await addDelivery(postgres, webhookId, noon)
  const { status, dueAt, body, attempts } = await attempted(deliveryId)
  expect([status, dueAt]).toStrictEqual(['succeeded', null])
  expect(attempts).toMatchObject([{ status: 200, response: 'answered', error: null }])
  expect(received).toHaveLength(1)
  const [request] = received as [Received]
  expect(request).toMatchObject({ path: '/hook?a=b', body: body.toString() })
  expect(request.headers).toMatchObject({
    'content-type': 'application/json',
    'x-svc-delivery': deliveryId,
    'x-svc-timestamp': String(attempts[0]?.at),
    'x-svc-signature': hmac('top', request),
  })
  expect(request.headers).not.toHaveProperty('x-svc-signature-previous')
})

test('in a rotation both secrets sign, after it the new one alone', async () => {
  const webhookId = await addWebhook(postgres, { url: base, secret: 'new' })
  const previousSecretUntil = noon + 60_000
  await updateEndpoint(
    postgres.db,
    webhookId,
    { previousEncryptedSecret: testSecrets.encrypt('old'), previousSecretUntil },
    noon,
  )
  await attempted(await addDelivery(postgres, webhookId, noon))
  await clock.advance(60_000)
  // Due now: a take that began before the advance must not find it.
  await attempted(await addDelivery(postgres, webhookId, clock.now()))
  const [during, after] = received as [Received, Received]
  expect(during.headers).toMatchObject({
    'x-svc-signature': hmac('new', during),
    'x-svc-signature-previous': hmac('old', during),
  })
  expect(after.headers['x-svc-signature']).toBe(hmac('new', after))
  expect(after.headers).not.toHaveProperty('x-svc-signature-previous')
})

test('a failure is tried again on its schedule, signed anew under the same id', async () => {
  answer = [503, { 'Retry-After': '9' }]
  const webhookId = await addWebhook(postgres, { url: base, secret: 'top' })
  const deliveryId = await addDelivery(postgres, webhookId, noon)
  const first = await attempted(deliveryId)
  expect(first.status).toBe('pending')
  // The clock advances while the attempt is under way.
  const delay = (first.dueAt ?? 0) - (first.attempts[0]?.at ?? 0)
  expect(delay).toBeGreaterThanOrEqual(9_000)
  expect(delay).toBeLessThan(60_000)
  expect(await endpoint(webhookId)).toMatchObject({
    failures_in_row: 1,
    failing_since: new Date(first.attempts[0]?.at ?? 0),
  })
  answer = [204]
  const { attempts, status } = await attempted(deliveryId, 2)
  expect(status).toBe('succeeded')
  const late = (attempts[1]?.at ?? 0) - (first.dueAt ?? 0)
  expect(late).toBeGreaterThanOrEqual(0)
  expect(late).toBeLessThan(60_000)
  expect(await endpoint(webhookId)).toMatchObject({ failures_in_row: 0, failing_since: null })
  expect(new Set(received.map(({ headers }) => headers['x-svc-delivery']))).toStrictEqual(new Set([deliveryId]))
  for (const request of received) expect(request.headers['x-svc-signature']).toBe(hmac('top', request))
  expect(new Set(received.map(({ headers }) => headers['x-svc-timestamp'])).size).toBe(2)
})

test('a redirect is a failure and is not followed', async () => {
  answer = [302, { Location: `${base}/elsewhere` }]
  const webhookId = await addWebhook(postgres, { url: base })
  const { status, attempts } = await attempted(await addDelivery(postgres, webhookId, noon))
  expect([status, attempts]).toMatchObject(['pending', [{ status: 302, error: 'redirects are not followed' }]])
  expect(received.map(({ path }) => path)).toStrictEqual(['/'])
})

describe('an endpoint that is off', () => {
  test('after a 410 keeps what waits and what comes as failed, and gets what somebody asks for', async () => {
    answer = [410]
    const webhookId = await addWebhook(postgres, { url: base })
    const later = await addDelivery(postgres, webhookId, noon + 3_600_000)
    expect((await attempted(await addDelivery(postgres, webhookId, noon))).status).toBe('failed')
    expect(await endpoint(webhookId)).toMatchObject({
      disabled_at: expect.any(Date),
      disabled_reason: expect.stringMatching(/410/),
    })
    expect((await find(later)).status).toBe('failed')
    const queued = await addDelivery(postgres, webhookId, clock.now())
    expect(await find(queued)).toMatchObject({ status: 'failed', dueAt: null })
    answer = [500]
    await webhookStore(postgres).replay(webhookId, queued, clock.now())
    expect(await attempted(queued)).toMatchObject({ status: 'failed', dueAt: null, attempts: [{ status: 500 }] })
    answer = [200]
    expect(await webhookStore(postgres).recover(webhookId, noon, clock.now())).toBe(3)
    expect((await attempted(later)).status).toBe('succeeded')
  })

  test('gets nothing that was queued while it was switched off', async () => {
    const webhookId = await addWebhook(postgres, { url: base })
    const deliveryId = await postgres.db.transaction().execute(async (transaction) => {
      const id = await addDelivery({ db: transaction }, webhookId, noon)
      // As another transaction, whose change this one did not see.
      await transaction.updateTable('endpoints').set({ active: false }).execute()
      return id
    })
    await waitUntil(async () => {
      await clock.advance(1_000)
      return (await find(deliveryId)).status === 'failed'
    }, 'the delivery has failed')
    expect(received).toStrictEqual([])
  })
})

test('what an alert rule sends to the URL of webhooks has the signature of the oldest of them', async () => {
  const ruleId = await addWebhook(postgres, { url: `${base}/`, owner: 'alert_rule', secret: 'own' })
  await attempted(await addDelivery(postgres, ruleId, noon))
  await addWebhook(postgres, { url: base, secret: 'of the webhook' })
  await addWebhook(postgres, { url: base, secret: 'of another' })
  await addWebhook(postgres, { url: base, secret: 'of another site', siteId: 'blog' })
  await attempted(await addDelivery(postgres, ruleId, noon))
  const [before, after] = received as [Received, Received]
  expect(before.headers['x-svc-signature']).toBe(hmac('own', before))
  expect(after.headers['x-svc-signature']).toBe(hmac('of the webhook', after))
})

test('a test of an alert rule has the signature that its transitions have', async () => {
  const ruleId = await addWebhook(postgres, { url: base, owner: 'alert_rule', secret: 'own' })
  await addWebhook(postgres, { url: base, secret: 'of summaries', events: ['event_summary'] })
  await addWebhook(postgres, { url: base, secret: 'of one that is off', active: false })
  await addWebhook(postgres, { url: base, secret: 'of the other environment', environment: 'dev' })
  const disabled = await addWebhook(postgres, { url: base, secret: 'of one that was switched off' })
  const off = { disabled_at: new Date(noon), disabled_reason: 'It failed.' }
  await postgres.db.updateTable('endpoints').set(off).where('endpoint_id', '=', disabled).execute()
  await addWebhook(postgres, { url: base, secret: 'of alerts' })
  await attempted(await addDelivery(postgres, ruleId, noon))
  const [sent] = received as [Received]
  expect(sent.headers['x-svc-signature']).toBe(hmac('of alerts', sent))
})

test('Slack gets the body without a signature, an address an e-mail with a stable id', async () => {
  const slack = await addWebhook(postgres, { url: base, owner: 'alert_rule', channel: 'slack' })
  const { body } = await attempted(await addDelivery(postgres, slack, noon))
  expect(received).toMatchObject([{ body: body.toString(), headers: { 'content-type': 'application/json' } }])
  expect(Object.keys(received[0]?.headers ?? {}).filter((name) => name.startsWith('x-svc-'))).toStrictEqual([])

  const endpointId = await addWebhook(postgres, { url: '["a@b.example"]', owner: 'alert_rule', channel: 'email' })
  const mail = Buffer.from(JSON.stringify({ subject: 'Alert', text: 'It fires.' }))
  const [id = ''] = await queueDeliveries(postgres.db, [{ endpointId, source: 'a', kind: 'alert', body: mail }], noon)
  expect((await attempted(id)).status).toBe('succeeded')
  expect(mails).toStrictEqual([{ to: ['a@b.example'], subject: 'Alert', text: 'It fires.', messageId: id }])
  expect(await figures('attempts_total')).toContain(
    'sluice_worker_delivery_attempts_total{channel="email",outcome="succeeded"} 1',
  )
})

describe('an e-mail that the server takes for some recipients', () => {
  const deferred = { succeeded: false, status: 450, response: '450 4.2.0 Greylisted', error: 'c and d for now' }
  const recipientsOfMails = () => mails.map(({ to }) => to)
  let endpointId: string
  let deliveryId: string

  beforeEach(async () => {
    const url = JSON.stringify(['a@b.example', 'c@b.example', 'd@b.example'])
    endpointId = await addWebhook(postgres, { url, owner: 'alert_rule', channel: 'email' })
    const body = Buffer.from(JSON.stringify({ subject: 'Alert', text: 'It fires.' }))
    const delivery = { endpointId, source: endpointId, kind: 'alert', body } as const
    ;[deliveryId = ''] = await queueDeliveries(postgres.db, [delivery], noon)
    mailOutcomes = [{ ...deferred, settledRecipients: ['a@b.example'] }]
  })

  test('is sent again to the others alone', async () => {
    mailOutcomes.push({ ...deferred, settledRecipients: ['c@b.example'] })
    const { status, attempts } = await attempted(deliveryId, 3)
    expect(status).toBe('succeeded')
    expect(attempts.map((each) => each.error)).toStrictEqual([deferred.error, deferred.error, null])
    expect(recipientsOfMails()).toStrictEqual([
      ['a@b.example', 'c@b.example', 'd@b.example'],
      ['c@b.example', 'd@b.example'],
      ['d@b.example'],
    ])
    expect(new Set(mails.map(({ messageId }) => messageId))).toStrictEqual(new Set([deliveryId]))
  })

  test('is not sent again once a user has removed the others', async () => {
    await attempted(deliveryId)
    await updateEndpoint(postgres.db, endpointId, encryptTarget(testSecrets, 'email', '["a@b.example"]'), clock.now())
    expect((await attempted(deliveryId, 2)).status).toBe('succeeded')
    expect(recipientsOfMails()).toHaveLength(1)
  })
})

test('the secret before a rotation does not sign if it was stored with another key', async () => {
  const webhookId = await addWebhook(postgres, { url: base, secret: 'new' })
  const box = testSecrets.encrypt('old')
  box[2] = (box[2] ?? 0) ^ 1
  const rotation = { previousEncryptedSecret: box, previousSecretUntil: noon + 3_600_000 }
  await updateEndpoint(postgres.db, webhookId, rotation, noon)
  expect((await attempted(await addDelivery(postgres, webhookId, noon))).status).toBe('succeeded')
  const [sent] = received as [Received]
  expect(sent.headers['x-svc-signature']).toBe(hmac('new', sent))
  expect(sent.headers).not.toHaveProperty('x-svc-signature-previous')
})

test('a sender that has failed sends again when it is run again', async () => {
  const { component, breakTakes } = sender
  breakTakes(new Error('a statement that no retry mends'))
  let failure: unknown
  running?.catch((error: unknown) => {
    failure = error
  })
  await waitUntil(async () => {
    await clock.advance(1_000)
    return failure !== undefined
  }, 'the sender fails')
  expect(failure).toMatchObject({ message: 'a statement that no retry mends' })
  breakTakes(undefined)
  running = component.run?.(stopping.signal)
  const webhookId = await addWebhook(postgres, { url: base })
  expect((await attempted(await addDelivery(postgres, webhookId, clock.now()))).status).toBe('succeeded')
})

test.each(['target_box', 'secret_box'] as const)(
  'a delivery whose %s was stored with another key waits for it, and is no failure of the receiver',
  async (column) => {
    const webhookId = await addWebhook(postgres, { url: base })
    const { [column]: right } = await endpoint(webhookId)
    const box = Buffer.from(right ?? [])
    box[2] = (box[2] ?? 0) ^ 1
    await postgres.db
      .updateTable('endpoints')
      .set({ [column]: box })
      .execute()
    const deliveryId = await addDelivery(postgres, webhookId, noon)
    const failures = () => log.lines().filter(({ outcome }) => outcome === 'lost')
    await waitUntil(async () => {
      await clock.advance(1_000)
      return failures().length > 1
    }, 'two attempts to decrypt')
    expect(failures()[0]).toMatchObject({ error: expect.stringContaining('another SLUICE_SECRETS_KEY') })
    expect(await find(deliveryId)).toMatchObject({ status: 'pending', attempts: [] })
    expect(await endpoint(webhookId)).toMatchObject({ failures_in_row: 0, failing_since: null })
    await postgres.db
      .updateTable('endpoints')
      .set({ [column]: right })
      .execute()
    expect((await attempted(deliveryId)).status).toBe('succeeded')
  },
)

async function isLeased(deliveryId: string): Promise<boolean> {
  const leased = postgres.db.selectFrom('deliveries').select('lease_until').where('delivery_id', '=', deliveryId)
  return (await leased.executeTakeFirstOrThrow()).lease_until !== null
}

test('a stop gives a delivery back whose receiver does not answer, so that another worker can take it at once', async () => {
  let connections = 0
  const silent = createServer().on('request', () => {
    connections += 1
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
  const id = await addDelivery(postgres, await addWebhook(postgres, { url }), noon)
  let hasEnded = false
  try {
    await waitUntil(async () => {
      await clock.advance(1_000)
      return isLeased(id)
    }, 'the delivery is taken')
    await waitUntil(() => connections > 0, 'the receiver has the delivery')
    const stoppedAt = clock.now()
    const stopped = stop().finally(() => {
      hasEnded = true
    })
    // Fewer seconds than the lease lasts, however slow the machine is.
    let seconds = 0
    await waitUntil(async () => {
      if (seconds++ < 20) await clock.advance(1_000)
      return hasEnded
    }, 'the sender has ended')
    await stopped
    const taken = await deliveryQueue(postgres).take(stoppedAt, { max: 1, failingMax: 0 })
    expect(taken).toMatchObject([{ id, isFirst: true }])
  } finally {
    silent.close()
  }
})

test('deliveries are removed 30 days after they were queued, by a compared clock', async () => {
  answer = [500]
  const webhookId = await addWebhook(postgres, { url: base })
  const old = await addDelivery(postgres, webhookId, noon)
  const recent = await addDelivery(postgres, webhookId, noon + 1)
  await webhookStore(postgres).recover(webhookId, 0, noon)
  const left = () => postgres.db.selectFrom('deliveries').select('delivery_id').execute()
  const isAhead = { now: () => noon + 100 * 86_400_000, isCompared: () => false }
  await expect(removeOldDeliveries(deliveryQueue(postgres), isAhead)).rejects.toMatchObject({ code: 'unavailable' })
  expect(await left()).toHaveLength(2)
  await waitUntil(async () => {
    // A delivery whose attempt is being recorded stays until the next time, and may be due again.
    await postgres.db.updateTable('deliveries').set({ due_at: null, status: 'failed' }).execute()
    await removeOldDeliveries(deliveryQueue(postgres), { now: () => noon + 30 * 86_400_000 + 1 })
    return (await left()).length === 1
  }, 'the old delivery is removed')
  expect(await left()).toStrictEqual([{ delivery_id: recent }])
  expect(old).not.toBe(recent)
})

/** Runs the task that measures the deliveries of this Postgres. */
function runGauges(url: string) {
  const opened = openPostgres(url)
  const registry = createMetrics()
  const gauges = deliveryGauges({ postgres: opened } as WorkerEngines, {
    clock,
    logger: log.logger,
    metrics: registry,
    leaseMetrics: leaseMetrics(registry),
    stopping: stopping.signal,
  })
  const ended = new AbortController()
  const run = gauges.run?.(ended.signal)
  return {
    scrape: () => registry.metrics(),
    stop: async () => {
      ended.abort()
      await run
      await opened.close()
    },
  }
}

test('what is disabled and what waits is measured, failing endpoints apart', async () => {
  const queue = deliveryQueue(postgres)
  await postgres.db.deleteFrom('endpoints').execute()
  expect(await queue.measure(noon)).toStrictEqual({ disabled: 0, oldestDueAt: undefined })
  const later = noon + 86_400_000
  const [failing, slow] = [await addWebhook(postgres), await addWebhook(postgres)]
  await addDelivery(postgres, failing, later)
  await addDelivery(postgres, slow, later + 5)
  await postgres.db
    .updateTable('endpoints')
    .set({ failures_in_row: 3, disabled_at: new Date(noon) })
    .where('endpoint_id', '=', failing)
    .execute()
  expect(await queue.measure(later + 10)).toStrictEqual({ disabled: 1, oldestDueAt: later + 5 })

  const gauges = runGauges(postgres.url)
  const isMeasured = async () => /^sluice_worker_endpoints_disabled 1$/m.test(await gauges.scrape())
  await waitUntil(isMeasured, 'the gauge has the number')
  await gauges.stop()
})

test('while Postgres is unavailable, deliveries are reported as due since then', async () => {
  const gauges = runGauges('postgres://127.0.0.1:1/away')
  await waitUntil(async () => {
    await clock.advance(1_000)
    const scraped = await gauges.scrape()
    return Number(/^sluice_worker_oldest_due_seconds\{kind="deliveries"\} (\S+)$/m.exec(scraped)?.[1]) >= 20
  }, 'the age grows')
  await gauges.stop()
})

test('no log line holds a secret or a URL', async () => {
  answer = [500]
  const webhookId = await addWebhook(postgres, { url: `${base}/canary-path`, secret: 'canary-secret' })
  await attempted(await addDelivery(postgres, webhookId, noon))
  await waitUntil(() => log.lines().length > 0, 'the attempt is logged')
  expect(log.lines()).toMatchObject([{ level: 'warn', outcome: 'failed', status: 500, endpoint_id: webhookId }])
  expect(JSON.stringify(log.lines())).not.toContain('canary')
})
