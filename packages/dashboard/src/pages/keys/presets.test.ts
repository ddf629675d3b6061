import { expect, it } from '@jest/globals'
import { originsOf, presetOf, stateOf, wrongOrigin } from './presets.ts'

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

it('origins get the form that browsers send, and an invalid one is found', () => {
  expect(originsOf('https://Shop.example/ http://localhost:3000')).toStrictEqual([
    'https://shop.example',
    'http://localhost:3000',
  ])
  expect(wrongOrigin('https://shop.example/\nhttp://localhost:3000')).toBeUndefined()
  for (const text of ['shop.example', 'https://shop.example/path', 'ftp://shop.example', 'https://shop.example?a'])
    expect(wrongOrigin(`https://a.example ${text}`)).toBe(text)
})

it('a key that expires is expiring until then', () => {
  expect(stateOf({ revoked_at: null, expires_at: null }, 5)).toBe('active')
  expect(stateOf({ revoked_at: null, expires_at: 6 }, 5)).toBe('expiring')
  expect(stateOf({ revoked_at: null, expires_at: 5 }, 5)).toBe('expired')
  expect(stateOf({ revoked_at: 1, expires_at: 6 }, 5)).toBe('revoked')
})
