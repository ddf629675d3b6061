import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Operation } from '@sluice/api/operation'
import { type OperationId, operations } from '@sluice/api/operations'
import { grants, type Scope, scopes } from '@sluice/contracts/scopes'
import { request } from '../support/test-service.ts'
import { startTestSluice, type TestSluice } from '../support/test-sluice.ts'
import { samples, type Target } from './samples.ts'

/** The ways of presenting a credential. */
const transports = ['bearer', 'query', 'cookie', 'none'] as const
type Transport = (typeof transports)[number]

/** The owner of the site or object, as seen by the key that is bound to `own`. */
const owners = ['own', 'foreign', 'absent'] as const
type Owner = (typeof owners)[number]

interface Holder {
  scope: Scope
  isBound: boolean
  key: string
  cookie: string
}

let sluice: TestSluice
const holders: Holder[] = []
const run = randomUUID().slice(0, 8)
const sites: Readonly<Record<Owner, string>> = {
  own: `own-${run}`,
  foreign: `foreign-${run}`,
  absent: `absent-${run}`,
}
let cells = 0

beforeAll(async () => {
  sluice = await startTestSluice()
  for (const scope of scopes) {
    for (const isBound of [false, true]) {
      const key = await sluice.createKey({ scopes: [scope], siteIds: isBound ? [sites.own] : null })
      holders.push({ scope, isBound, key, cookie: await sluice.openSession(key) })
    }
  }
  await sluice.sites.register([sites.own, sites.foreign])
})

afterAll(async () => {
  await sluice.stop()
})

/**
 * Each cell has a separate site, key, cohort, import, export and webhook, because some operations delete them, and
 * others register an absent site.
 */
async function targetOf(operation: Operation, owner: Owner, { scope }: Holder): Promise<Target> {
  const unique = `${run}-${cells++}`
  const siteId = owner === 'absent' ? `${sites.absent}-${unique}` : sites[owner]
  // Another cell may have deleted it.
  if (owner !== 'absent') await sluice.sites.register([siteId])
  const needsKey = operation.rights.of === 'object' && operation.rights.name === 'Key'
  const keyId = needsKey && owner !== 'absent' ? await sluice.createKeyId({ siteIds: [siteId] }) : `key_${unique}`
  const exportType = scope === 'cohorts:read' ? 'users' : 'events'
  const unnamed = {
    cohortId: '',
    importId: '',
    exportId: '',
    erasureId: '',
    apiKey: '',
    webhookId: '',
    deliveryId: '',
    ruleId: '',
  }
  const names = named({ siteId, keyId, exportType, unique, ...unnamed }, operation)
  const needsCohort = 'cohort_id' in names
  const cohortId = needsCohort && owner !== 'absent' ? await sluice.createCohortId(siteId) : `coh_${unique}`
  const needsImport = 'import_id' in names
  const importId = needsImport && owner !== 'absent' ? await sluice.createImportId(siteId) : `imp_${unique}`
  const needsErasure = 'erasure_id' in names
  const erasureId = needsErasure && owner !== 'absent' ? await sluice.createErasureId(siteId) : `era_${unique}`
  const needsExport = 'export_id' in names
  const exportId = needsExport && owner !== 'absent' ? await sluice.createExportId(siteId, exportType) : `exp_${unique}`
  const needsWebhook = 'webhook_id' in names
  const webhookId = needsWebhook && owner !== 'absent' ? await sluice.createWebhookId(siteId) : `wh_${unique}`
  const needsDelivery = 'delivery_id' in names
  const deliveryId = needsDelivery && owner !== 'absent' ? await sluice.createDeliveryId(webhookId) : `dlv_${unique}`
  const needsRule = 'rule_id' in names
  const ruleId = needsRule && owner !== 'absent' ? await sluice.createRuleId(siteId) : `alr_${unique}`
  const made = { webhookId, deliveryId, ruleId }
  return { ...made, siteId, keyId, cohortId, importId, exportId, erasureId, exportType, apiKey: sluice.admin, unique }
}

/** The parameters of a sample's path and query. */
function named(target: Target, { id }: Operation): Record<string, string> {
  const { params, query } = samples[id as OperationId](target)
  return { ...params, ...query }
}

async function send(operation: Operation, target: Target, holder: Holder, transport: Transport, unknown = {}) {
  const { params = {}, query = {}, body, form, file } = samples[operation.id as OperationId](target)
  const path = operation.path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
  const search = new URLSearchParams({
    ...query,
    ...unknown,
    ...(transport === 'query' ? { api_key: holder.key } : {}),
  })
  // A session that was logged out would be refused in the next cell.
  const cookie = operation.id === 'deleteSession' ? await sluice.openSession(holder.key) : holder.cookie
  return request(`${sluice.url}${path}?${search.toString()}`, {
    method: operation.method,
    headers: {
      ...(transport === 'bearer' ? { Authorization: `Bearer ${holder.key}` } : {}),
      ...(transport === 'cookie' ? { Cookie: cookie } : {}),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(form && { body: formOf(form, file) }),
  })
}

function formOf(fields: Readonly<Record<string, string>>, file = ''): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  form.append('file', new Blob([file]), 'file.csv')
  return form
}

/** The body as text, with the names of the target's fields in place of their values. */
function withoutIds(body: object, target: Target): string {
  const fields = Object.entries<string>({ ...target }).sort(([, one], [, other]) => other.length - one.length)
  return fields.reduce((text, [name, value]) => text.replaceAll(value, name), JSON.stringify(body))
}

/** The status by docs/http-interface.md#bound-keys; `granted`: any status of the operation's own. */
function expected(operation: Operation, holder: Holder, owner: Owner, transport: Transport): number | 'granted' {
  const { scope, alternativeScope: alternativeScope = scope, rights, limit, id, dialect } = operation
  if (scope === 'public' || alternativeScope === 'public') return 'granted'
  if (transport === 'none' || (transport === 'cookie' && dialect === 'segment')) return 401
  const isEnough = (each: Scope | 'authenticated'): boolean => each === 'authenticated' || grants([holder.scope], each)
  if (!isEnough(scope) && !isEnough(alternativeScope)) return 403
  const isForeign = holder.isBound ? owner !== 'own' : false
  switch (rights.of) {
    case 'key':
      return holder.isBound ? 'granted' : 403
    case 'none':
    case 'list':
      return 'granted'
    case 'object':
      return isForeign || owner === 'absent' ? 404 : 'granted'
    case 'site':
      // Each query of a batch has a result of its own, which says that the site does not exist.
      if (rights.in === 'queries') return 'granted'
      if (limit === 'queries') return isForeign || owner === 'absent' ? 404 : 'granted'
      // The batch contains only events of sites that are not allowed.
      if (isForeign) return id === 'collectBatch' ? 400 : 403
      return 'granted'
  }
}

const granted: Partial<Record<OperationId, readonly number[]>> = {
  // 409 when another cell has created the site.
  createSite: [201, 409],
}

describe.each(Object.values(operations) as Operation[])('the rights of $method $path', (operation) => {
  test.each(transports)('are those of the table when the credential is sent by %s', async (transport) => {
    const wrong: object[] = []
    for (const holder of holders) {
      const bodies: Partial<Record<Owner, string>> = {}
      for (const owner of owners) {
        const target = await targetOf(operation, owner, holder)
        const { status, body } = await send(operation, target, holder, transport)
        const rule = expected(operation, holder, owner, transport)
        const { scope, isBound } = holder
        const cell = { scope, isBound, owner, status, rule, error: body.error }
        const right =
          rule === 'granted'
            ? (granted[operation.id as OperationId] ?? [operation.response.status]).includes(status)
            : status === rule
        if (!right) wrong.push(cell)
        if (isBound && owner !== 'own') {
          const isOfOwner = operation.rights.of === 'site' || operation.rights.of === 'object'
          const compared = { ...body, timestamp: 0, data: isOfOwner ? body.data : undefined }
          bodies[owner] = withoutIds(compared, target)
        }
        // No response shows anything of a site that the key is not bound to.
        if (isBound && JSON.stringify(body.data ?? null).includes(sites.foreign)) {
          if (owner === 'own' || operation.rights.of === 'list') wrong.push({ ...cell, leak: true })
        }
      }
      // A foreign object and an absent one get the same response.
      if (bodies.foreign !== bodies.absent) wrong.push({ scope: holder.scope, ...bodies })
    }
    expect(wrong).toStrictEqual([])
  })
})

test('every operation but those that collect events refuses a parameter that is not known', async () => {
  const holder = holders.find(({ scope, isBound }) => scope === 'admin' && !isBound)
  if (!holder) throw new Error('an unbound key that may do everything')
  const accepted: object[] = []
  for (const operation of Object.values(operations) as Operation[]) {
    const target = await targetOf(operation, 'own', holder)
    const { status, body } = await send(operation, target, holder, 'bearer', { colour: 'red' })
    const isRefused =
      status === 400 && /^Invalid field: colour is not (known|a known parameter)$/.test(body.error ?? '')
    if (isRefused !== operation.path.startsWith('/api/v1/')) accepted.push({ id: operation.id, status, body })
  }
  expect(accepted).toStrictEqual([])
})
