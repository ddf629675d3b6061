import { expect, it } from '@jest/globals'
import { originsOf, presetOf, stateOf } from './presets.ts'

it('a key is a preset by its scopes', () => {
  expect(presetOf({ scopes: ['events:write'], allowed_origins: null })).toBe('server')
  expect(presetOf({ scopes: ['events:write'], allowed_origins: ['https://a.example'] })).toBe('browser')
  expect(presetOf({ scopes: ['cohorts:read', 'stats:read'], allowed_origins: null })).toBe('dashboard')
  expect(presetOf({ scopes: ['events:write', 'stats:read'], allowed_origins: null })).toBe('custom')
})

it('origins stand on lines or between commas, each once; none is null', () => {
  expect(originsOf(' https://a.example\nhttps://b.example, https://a.example ')).toStrictEqual([
    'https://a.example',
    'https://b.example',
  ])
  expect(originsOf(' \n')).toBeNull()
})

it('a key that expires is expiring until then', () => {
  expect(stateOf({ revoked_at: null, expires_at: null }, 5)).toBe('active')
  expect(stateOf({ revoked_at: null, expires_at: 6 }, 5)).toBe('expiring')
  expect(stateOf({ revoked_at: null, expires_at: 5 }, 5)).toBe('expired')
  expect(stateOf({ revoked_at: 1, expires_at: 6 }, 5)).toBe('revoked')
})
