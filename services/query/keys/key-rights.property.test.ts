import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Credential } from '@sluice/access/credential'
import type { KeyRecord, KeyStore } from '@sluice/access/keys'
import { statusOf } from '@sluice/api/error-status'
import { type Scope, scopes } from '@sluice/contracts/scopes'
import type { Route } from '@sluice/http/route'
import { keyStore } from '@sluice/postgres/keys'
import { AppError } from '@sluice/runtime/errors'
import { apiRequest } from '../../../tests/support/api-request.ts'
import { createTestKey, openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'
import { createKeyRoute } from './create-key.ts'
import { rotateKeyRoute } from './rotate-key.ts'
import { updateKeyRoute } from './update-key.ts'

let postgres: TestPostgres
let keys: KeyStore
let routes: Record<'create' | 'update' | 'rotate', Route>

beforeAll(async () => {
  postgres = await openTestPostgres()
  keys = keyStore(postgres)
  routes = {
    create: createKeyRoute({ keys }),
    update: updateKeyRoute({ keys }),
    rotate: rotateKeyRoute({ keys }),
  }
})

afterAll(async () => {
  await postgres.drop()
})

interface Rights {
  scopes: readonly Scope[]
  siteIds: readonly string[] | null
  allowedOrigins: readonly string[] | null
  /** Unix ms. */
  expiresAt: number | null
}

const scopeList = fc.subarray([...scopes], { minLength: 1 })
const siteList = fc.subarray(['a', 'b', 'c', 'A'], { minLength: 1 })
const sites = fc.option(siteList, { nil: null })
const origins = fc.option(fc.subarray(['https://a.example', 'https://b.example']), { nil: null })
const expiry = fc.constantFrom(null, 4e12, 4.1e12)
const rights: fc.Arbitrary<Rights> = fc.record({
  scopes: scopeList,
  siteIds: sites,
  allowedOrigins: origins,
  expiresAt: expiry,
})
const body = fc.record(
  { scopes: scopeList, site_ids: sites, allowed_origins: origins, expires_at: expiry },
  { requiredKeys: [] },
)

type ScopesAndSites = Pick<Rights, 'scopes' | 'siteIds'>

/** Whether `maker` has every right of `right`: the rule in its plainest form. */
function has(maker: ScopesAndSites, right: ScopesAndSites): boolean {
  const hasScopes = maker.scopes.includes('admin') || right.scopes.every((scope) => maker.scopes.includes(scope))
  const hasSites =
    maker.siteIds === null || (right.siteIds?.every((siteId) => maker.siteIds?.includes(siteId)) ?? false)
  return hasScopes && hasSites
}

/** Whether pages of an origin may use `after` that may not use `before`. */
function addsOrigin(before: Rights, after: Rights): boolean {
  const { allowedOrigins: known } = before
  return known !== null && (after.allowedOrigins?.some((origin) => !known.includes(origin)) ?? true)
}

/** Whether a key that expires at `expiresAt` is usable later than `maker`. */
function outlives(maker: Rights, { expiresAt }: Rights): boolean {
  return maker.expiresAt !== null && (expiresAt === null || expiresAt > maker.expiresAt)
}

const rightsOf = ({ scopes, siteIds, allowedOrigins, expiresAt }: KeyRecord): Rights => ({
  scopes,
  siteIds,
  allowedOrigins,
  expiresAt,
})

const storeKey = (rights: Rights): Promise<{ keyId: string }> => createTestKey(keys, rights)

/** Whether `maker` sees the key: a bound key sees only keys that are bound to its own sites. */
function sees(maker: Rights, key: Rights): boolean {
  return has({ scopes: ['admin'], siteIds: maker.siteIds }, { scopes: [], siteIds: key.siteIds })
}

async function handle(
  operation: keyof typeof routes,
  maker: Rights,
  sent: object,
  keyId = '',
): Promise<{ status: number; keyId: string }> {
  const credential: Credential = { ...apiRequest().credential, ...maker }
  const bytes = Buffer.from(JSON.stringify(sent))
  try {
    const { status, data } = await routes[operation].handle(
      apiRequest({ credential, params: { key_id: keyId }, body: { bytes, type: 'application/json' } }),
    )
    return { status, keyId: (data as { key_id: string }).key_id }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return { status: statusOf[error.code], keyId: '' }
  }
}

const all = async () =>
  new Map((await keys.list({ limit: 100, offset: 0 }, null)).keys.map((key): [string, KeyRecord] => [key.keyId, key]))

/** Compares the keys after a request with the rule: one with the expected rights was stored, or nothing was changed. */
async function check(
  operation: keyof typeof routes,
  [maker, old, sent]: [
    Rights,
    Rights,
    { scopes?: Scope[]; site_ids?: string[] | null; allowed_origins?: string[] | null; expires_at?: number | null },
  ],
): Promise<void> {
  await postgres.db.deleteFrom('api_keys').execute()
  const { keyId: oldId } = await storeKey(old)
  const before = await all()
  const wanted: Rights =
    operation === 'create'
      ? {
          scopes: sent.scopes ?? ['events:write', 'stats:read'],
          siteIds: sent.site_ids === undefined ? maker.siteIds : sent.site_ids,
          allowedOrigins: sent.allowed_origins ?? null,
          expiresAt: sent.expires_at === undefined ? maker.expiresAt : sent.expires_at,
        }
      : {
          scopes: sent.scopes ?? old.scopes,
          siteIds: sent.site_ids === undefined ? old.siteIds : sent.site_ids,
          allowedOrigins: sent.allowed_origins === undefined ? old.allowedOrigins : sent.allowed_origins,
          expiresAt: sent.expires_at === undefined ? old.expiresAt : sent.expires_at,
        }
  // A key that outlives its maker may lose rights, and get another name.
  const prolongs =
    outlives(maker, wanted) &&
    (operation !== 'update' || sent.expires_at !== undefined || !has(old, wanted) || addsOrigin(old, wanted))
  const success = operation === 'update' ? 200 : 201
  // A rotation has no field that a 400 could name.
  const tooLong = operation === 'rotate' ? 403 : 400
  const allowed = prolongs ? tooLong : success
  const expected = operation !== 'create' && !sees(maker, old) ? 404 : has(maker, wanted) ? allowed : 403

  const body = operation === 'create' ? { name: 'made', ...sent } : sent
  const { status, keyId } = await handle(operation, maker, body, oldId)
  expect(status).toBe(expected)
  const after = await all()
  if (status !== success) {
    expect(after).toStrictEqual(before)
    return
  }
  const made = after.get(keyId)
  expect(made && rightsOf(made)).toEqual({ ...wanted, scopes: expect.arrayContaining([...wanted.scopes]) })
  expect(has(maker, made ?? wanted)).toBe(true)
  expect(after.size).toBe(operation === 'update' ? 1 : 2)
}

const runs = { numRuns: 150 }

test('no key creates one with more rights than its own', async () => {
  await fc.assert(
    fc.asyncProperty(fc.tuple(rights, rights, body), (input) => check('create', input)),
    runs,
  )
})

const expiringAdmin: Rights = { scopes: ['admin'], siteIds: null, allowedOrigins: null, expiresAt: 4e12 }
const browserKey: Rights = {
  scopes: ['events:write'],
  siteIds: ['a'],
  allowedOrigins: ['https://a.example'],
  expiresAt: null,
}

test('no key gives another key more rights than its own', async () => {
  await fc.assert(
    fc.asyncProperty(fc.tuple(rights, rights, body), (input) => check('update', input)),
    // Few random changes add an origin and nothing else.
    { ...runs, examples: [[[expiringAdmin, browserKey, { allowed_origins: null }]]] },
  )
})

test('no key rotates one with more rights than its own', async () => {
  await fc.assert(
    fc.asyncProperty(fc.tuple(rights, rights, fc.constant({})), (input) => check('rotate', input)),
    runs,
  )
})

test('no chain of created, changed and rotated keys exceeds the rights of the first key', async () => {
  const step = fc.record({
    operation: fc.constantFrom('create', 'update', 'rotate'),
    by: fc.nat(),
    of: fc.nat(),
    sent: body,
  })
  await fc.assert(
    fc.asyncProperty(rights, fc.array(step, { minLength: 3, maxLength: 10 }), async (first, steps) => {
      await postgres.db.deleteFrom('api_keys').execute()
      await storeKey(first)
      for (const { operation, by, of, sent } of steps) {
        const known = [...(await all()).values()]
        const maker = known[by % known.length]
        const keyId = known[of % known.length]?.keyId
        const body =
          operation === 'create' ? { name: 'made', ...sent } : operation === 'update' ? sent : { overlap: '1h' }
        await handle(operation, maker ? rightsOf(maker) : first, body, keyId)
      }
      for (const key of (await all()).values()) {
        expect({ has: has(first, key), outlives: outlives(first, rightsOf(key)) }).toEqual({
          has: true,
          outlives: false,
        })
      }
    }),
    { numRuns: 60 },
  )
})
