import { describe, expect, test } from '@jest/globals'
import { createKeyBody } from './keys.ts'
import { validate } from './validate.ts'

function read(body: unknown): unknown {
  return validate(createKeyBody, body)
}

test('a name is enough: events:write, stats:read and prod are the defaults', () => {
  expect(read({ name: 'shop' })).toStrictEqual({
    name: 'shop',
    scopes: ['events:write', 'stats:read'],
    environment: 'prod',
  })
})

test('two bodies do not share the default list', () => {
  const first = validate(createKeyBody, { name: 'a' })
  first.scopes.push('admin')
  expect(validate(createKeyBody, { name: 'b' }).scopes).toStrictEqual(['events:write', 'stats:read'])
})

test('everything may be given', () => {
  const body = {
    name: '\u{1F600}'.repeat(128),
    scopes: ['admin', 'cohorts:write', 'cohorts:read', 'stats:read', 'events:write'],
    environment: 'dev',
    expires_at: 8_640_000_000_000,
  }
  expect(read(body)).toStrictEqual(body)
  expect(read({ ...body, expires_at: null })).toStrictEqual({ ...body, expires_at: null })
})

test('a field __proto__ is refused like any other that is not known', () => {
  const body: unknown = JSON.parse('{"name": "n", "__proto__": {"scopes": ["admin"], "environment": "dev"}}')
  expect(() => read(body)).toThrow('Invalid field: __proto__ is not known')
})

describe('400 names the field', () => {
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
    [{ name: 'n', key: 'svc_prod_' }, 'Invalid field: key is not known'],
  ])('%j', (body, message) => {
    expect(() => read(body)).toThrow(expect.objectContaining({ status: 400, message }))
  })
})
