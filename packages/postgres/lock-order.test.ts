import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { LeaseKey } from '@sluice/leases/lease-table'
import { newId } from '@sluice/runtime/ids'
import { addRule } from '../../tests/support/alert-rules.ts'
import { addExport } from '../../tests/support/export-jobs.ts'
import { addImport } from '../../tests/support/import-jobs.ts'
import { lockAwaited, openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { addDelivery, addWebhook } from '../../tests/support/webhooks.ts'
import type { AlertRule } from './alert-records.ts'
import { alertRuleStore } from './alert-rules.ts'
import { erasureStore } from './erasures.ts'
import { exportStore } from './exports.ts'
import { importStore } from './imports.ts'
import type { Postgres } from './open.ts'
import { siteStore } from './sites.ts'
import { webhookStore } from './webhooks.ts'
import { within } from './within.ts'

const noon = Date.UTC(2026, 0, 2, 12)
const minuteMs = 60_000

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

/** A rule of a registered site that has a webhook as well. */
async function ruleOfSite(): Promise<AlertRule> {
  const siteId = newId('site')
  await siteStore(postgres).register([siteId])
  await addWebhook(postgres, { siteId })
  return addRule(postgres, { siteId, at: noon })
}

const deleteRule = ({ ruleId }: AlertRule) => alertRuleStore(postgres).delete(ruleId, null)

async function deleteSite(siteId: string): Promise<boolean> {
  const erasure = { erasureId: newId('era'), siteId, kind: 'site', hashes: null, before: null } as const
  return (await erasureStore(postgres).createForSite({ ...erasure, keyId: 'key_1' }, () => noon)) !== undefined
}

/**
 * Takes in a transaction the first lock of the work (`lock`), starts the other operation, which waits for this lock, and
 * then does the work in the same transaction. If the other operation holds a lock that the work needs, Postgres ends
 * one of the two. Returns the result of the work.
 */
async function whileOtherWaits<T>(
  other: () => Promise<boolean>,
  { lock, work }: { lock: ReturnType<typeof sql>; work: (within: Postgres) => Promise<T> },
): Promise<T> {
  const { result, waited } = await postgres.db.transaction().execute(async (transaction) => {
    await lock.execute(transaction)
    const waiting = other()
    // Awaited below, unless the work fails first.
    waiting.catch(() => undefined)
    await lockAwaited(postgres)
    return { result: await work(within(postgres, transaction)), waited: { waiting } }
  })
  expect(await waited.waiting).toBe(true)
  return result
}

const lockRule = ({ ruleId }: AlertRule) => sql`SELECT FROM alert_rules WHERE rule_id = ${ruleId} FOR UPDATE`

/** Makes the rule fire, which notifies the webhook of the site and the target of the rule. */
const evaluate = async (on: Postgres, { ruleId, revision }: AlertRule) => {
  const measured = { outcome: 'value', value: 12, previous: 0 } as const
  const evaluated = await alertRuleStore(on).step(noon + minuteMs, [{ ruleId, revision, measured }], noon + minuteMs)
  return evaluated.map(({ transition }) => transition?.to)
}

const move = (on: Postgres, { ruleId, settings, revision, channel, encryptedTarget }: AlertRule) =>
  alertRuleStore(on).update(
    ruleId,
    null,
    {
      revision,
      settings: { ...settings, name: 'renamed' },
      isConditionChanged: false,
      channel,
      target: { type: 'slack', encryptedTarget, targetFingerprint: Buffer.from('other') },
    },
    noon,
  )

test.each([
  ['rule', deleteRule],
  ['site', ({ siteId }: AlertRule) => deleteSite(siteId)],
])('the deletion of a %s waits for an evaluation under way, and for a change of the rule', async (_, remove) => {
  const evaluated = await ruleOfSite()
  const fired = await whileOtherWaits(() => remove(evaluated), {
    lock: lockRule(evaluated),
    work: (on) => evaluate(on, evaluated),
  })
  expect(fired).toStrictEqual(['firing'])

  const moved = await ruleOfSite()
  const changed = await whileOtherWaits(() => remove(moved), {
    lock: lockRule(moved),
    work: (on) => move(on, moved),
  })
  expect(changed).toMatchObject({ settings: { name: 'renamed' }, notificationType: 'slack' })
})

test('a site and one of its rules are deleted at the same time', async () => {
  const rule = await ruleOfSite()
  const deleted = await whileOtherWaits(() => deleteSite(rule.siteId), {
    lock: sql`SELECT FROM alert_sites WHERE site_id = ${rule.siteId} FOR UPDATE`,
    work: (on) => alertRuleStore(on).delete(rule.ruleId, null),
  })
  expect(deleted).toBe(true)
})

test('a test of a rule that is being deleted waits for the deletion, and is not queued', async () => {
  const rule = await ruleOfSite()
  const { deleting, testing } = await postgres.db.transaction().execute(async (transaction) => {
    await sql`SELECT FROM endpoints WHERE endpoint_id = ${rule.ruleId} FOR KEY SHARE`.execute(transaction)
    const deletion = deleteRule(rule)
    deletion.catch(() => undefined)
    await lockAwaited(postgres)
    const queueing = alertRuleStore(postgres).queueTest(rule, noon)
    queueing.catch(() => undefined)
    await lockAwaited(postgres, 2)
    return { deleting: deletion, testing: queueing }
  })
  expect(await Promise.all([deleting, testing])).toStrictEqual([true, { state: 'deleted' }])
})

test.each<
  [string, (siteId: string) => Promise<{ lock: ReturnType<typeof sql>; work: (on: Postgres) => Promise<void> }>]
>([
  [
    'export',
    async (siteId) => {
      const { exportId } = await addExport(exportStore(postgres), { site: siteId }, noon)
      // The site's next export, which the completion puts behind the exports of other sites.
      await addExport(exportStore(postgres), { site: siteId }, noon)
      const lease = await taken(exportStore(postgres).leases.take(noon, 1_000), exportId)
      const file = { rows: 0, bytes: 0, etag: 'etag', expiresAt: noon + minuteMs }
      return {
        lock: sql`SELECT FROM exports WHERE export_id = ${exportId} FOR UPDATE`,
        work: (on) => exportStore(on).complete(lease, file, noon),
      }
    },
  ],
  [
    'import',
    async (siteId) => {
      const { importId } = await addImport(importStore(postgres), { site: siteId }, noon)
      const lease = await taken(importStore(postgres).leases.take(noon, 1_000), importId)
      return {
        lock: sql`SELECT FROM imports WHERE import_id = ${importId} FOR UPDATE`,
        work: (on) => importStore(on).complete(lease, noon),
      }
    },
  ],
])('the deletion of a site waits for an %s that is being completed', async (_, begin) => {
  const { siteId } = await ruleOfSite()
  await addWebhook(postgres, { siteId, events: ['import.completed', 'export.completed'] })
  const completion = await begin(siteId)
  await whileOtherWaits(() => deleteSite(siteId), completion)
})

test('a recovery of deliveries waits for a change of their webhook', async () => {
  const webhookId = await addWebhook(postgres)
  await addDelivery(postgres, webhookId, noon)
  const newest = await addDelivery(postgres, webhookId, noon + 1)
  const changed = await whileOtherWaits(async () => (await webhookStore(postgres).recover(webhookId, 0, noon)) === 2, {
    // The change has updated the newest delivery, and goes on to the others.
    lock: sql`SELECT FROM endpoints JOIN deliveries USING (endpoint_id) WHERE delivery_id = ${newest} FOR UPDATE`,
    work: (on) => webhookStore(on).update(webhookId, null, () => ({ active: false }), noon),
  })
  expect(changed).toMatchObject({ active: false })
})

async function taken<T extends LeaseKey>(leases: Promise<readonly T[]>, id: string): Promise<T> {
  const found = (await leases).find((lease) => lease.id === id)
  if (!found) throw new Error(`${id} was not taken`)
  return found
}
