import { describe, expect, test } from '@jest/globals'
import { validate } from '@sluice/runtime/validate'
import { badRequestCode } from '../../tests/support/error-codes.ts'
import { createKeyBody, rotateKeyBody, updateKeyBody } from './keys.ts'

function readKeyBody(body: unknown): unknown {
  return validate(createKeyBody, body)
}

test('only the name of a key is required, and the defaults are events:write, stats:read and prod', () => {
  expect(readKeyBody({ name: 'shop' })).toStrictEqual({
    name: 'shop',
    scopes: ['events:write', 'stats:read'],
    environment: 'prod',
  })
})

test('two bodies do not share the default list of scopes', () => {
  const first = validate(createKeyBody, { name: 'a' })
  first.scopes.push('admin')
  expect(validate(createKeyBody, { name: 'b' }).scopes).toStrictEqual(['events:write', 'stats:read'])
})

test('every field of a key is accepted up to its largest value, and null where it is allowed', () => {
  const body = {
    name: '\u{1F600}'.repeat(128),
    scopes: ['admin', 'cohorts:write', 'cohorts:read', 'stats:read', 'events:write'],
    environment: 'dev',
    site_ids: ['shop', '\u{1F600}'.repeat(64)],
    expires_at: 8_640_000_000_000,
    rate_limits: { events_per_minute: 1, queries_per_minute: 10_000_000, admin_per_minute: 2 },
  }
  expect(readKeyBody(body)).toStrictEqual(body)
  const nullFields = { site_ids: null, expires_at: null, rate_limits: null }
  expect(readKeyBody({ ...body, ...nullFields })).toStrictEqual({ ...body, ...nullFields })
  const thousand = Array.from({ length: 1_000 }, (_, n) => `s${n}`)
  expect(readKeyBody({ ...body, site_ids: thousand, rate_limits: {} })).toMatchObject({
    site_ids: thousand,
    rate_limits: {},
  })
})

test('a field __proto__ is rejected like any other unknown field', () => {
  const body: unknown = JSON.parse('{"name": "n", "__proto__": {"scopes": ["admin"], "environment": "dev"}}')
  expect(() => readKeyBody(body)).toThrow('Invalid field: __proto__ is not known')
})

describe('the error names the invalid field of', () => {
  test.each<[object, string]>([
    [{}, 'Missing required field: name'],
    [{ name: '' }, 'Missing required field: name'],
    [{ name: null }, 'Missing required field: name'],
    [{ name: 5 }, 'Invalid field: name must be a string'],
    [{ name: 'n'.repeat(129) }, 'Invalid field: name exceeds maximum length of 128'],
    [{ name: 'a\0' }, 'Invalid field: name must not contain NUL characters'],
    [{ name: 'n', scopes: 'admin' }, 'Invalid field: scopes must be an array'],
    [{ name: 'n', scopes: [] }, 'Invalid field: scopes must name at least one scope'],
    [{ name: 'n', scopes: ['admin', 'admin'] }, 'Invalid field: scopes.1 must name each scope once'],
    [
      { name: 'n', scopes: ['stats:read', 'root'] },
      'Invalid field: scopes.1 must be one of: events:write, stats:read, cohorts:read, cohorts:write, admin',
    ],
    [{ name: 'n', environment: 'test' }, 'Invalid field: environment must be one of: prod, dev'],
    [{ name: 'n', expires_at: '2030' }, 'Invalid field: expires_at must be a number'],
    [{ name: 'n', expires_at: 1.5 }, 'Invalid field: expires_at must be an integer'],
    [{ name: 'n', site_ids: 'shop' }, 'Invalid field: site_ids must be an array'],
    [{ name: 'n', site_ids: [] }, 'Invalid field: site_ids must name at least one site, or be null'],
    [{ name: 'n', site_ids: [''] }, 'Invalid field: site_ids.0 must not be empty'],
    [{ name: 'n', site_ids: ['s', null] }, 'Invalid field: site_ids.1 must be a string'],
    [{ name: 'n', site_ids: ['a\0'] }, 'Invalid field: site_ids.0 must not contain NUL characters'],
    [{ name: 'n', site_ids: ['s'.repeat(65)] }, 'Invalid field: site_ids.0 exceeds maximum length of 64'],
    [{ name: 'n', site_ids: ['s', 't', 's'] }, 'Invalid field: site_ids.2 must name each site once'],
    [
      { name: 'n', site_ids: Array.from({ length: 1_001 }, (_, n) => `s${n}`) },
      'Invalid field: site_ids must contain at most 1000 items',
    ],
    [{ name: 'n', rate_limits: 5 }, 'Invalid field: rate_limits must be an object'],
    [{ name: 'n', rate_limits: { events: 5 } }, 'Invalid field: rate_limits.events is not known'],
    [
      { name: 'n', rate_limits: { admin_per_minute: 0 } },
      'Invalid field: rate_limits.admin_per_minute must be at least 1',
    ],
    [
      { name: 'n', rate_limits: { events_per_minute: 10_000_001 } },
      'Invalid field: rate_limits.events_per_minute must be at most 10000000',
    ],
    [
      { name: 'n', rate_limits: { queries_per_minute: null } },
      'Invalid field: rate_limits.queries_per_minute must be a number',
    ],
    [{ name: 'n', key: 'svc_prod_' }, 'Invalid field: key is not known'],
  ])('%j', (body, message) => {
    expect(() => readKeyBody(body)).toThrow(expect.objectContaining({ code: badRequestCode(message), message }))
  })
})

describe('the body of an update', () => {
  test('has the fields that were sent and no defaults', () => {
    for (const body of [
      {},
      { name: 'n' },
      { scopes: ['admin'], site_ids: null, expires_at: null, rate_limits: null },
    ]) {
      expect(validate(updateKeyBody, body)).toStrictEqual(body)
    }
  })

  test.each<[object, string]>([
    [{ name: '' }, 'Invalid field: name must not be empty'],
    [{ name: null }, 'Invalid field: name must be a string'],
    [{ scopes: null }, 'Invalid field: scopes must be an array'],
    [{ environment: 'prod' }, 'Invalid field: environment is not known'],
  ])('is rejected when it is %j', (body, message) => {
    expect(() => validate(updateKeyBody, body)).toThrow(
      expect.objectContaining({ code: badRequestCode(message), message }),
    )
  })
})

describe('the overlap of a rotation', () => {
  test.each([
    [{}, 0],
    [{ overlap: '0s' }, 0],
    [{ overlap: '90s' }, 90_000],
    [{ overlap: '15m' }, 900_000],
    [{ overlap: '48h' }, 172_800_000],
    [{ overlap: '90d' }, 7_776_000_000],
  ])('of %j is %d ms', (body, overlap) => {
    expect(validate(rotateKeyBody, body)).toStrictEqual({ overlap })
  })

  const formatReason = 'must be a number and a unit, s, m, h or d, e.g. 7d'

  test.each([
    [7, 'must be a string'],
    [null, 'must be a string'],
    ['', 'must not be empty'],
    ['7', formatReason],
    ['7 d', formatReason],
    ['-7d', formatReason],
    ['1.5d', formatReason],
    ['7D', formatReason],
    ['91d', 'must be at most 90d'],
    ['7776001s', 'must be at most 90d'],
  ])('is rejected when it is %j', (overlap, reason) => {
    const message = `Invalid field: overlap ${reason}`
    expect(() => validate(rotateKeyBody, { overlap })).toThrow(
      expect.objectContaining({ code: badRequestCode(message), message }),
    )
  })
})
