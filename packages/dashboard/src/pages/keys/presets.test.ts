import { expect, it } from '@jest/globals'
import { bodyOf, newDraft, presetChanges } from './key-draft.ts'
import { originsOf, presetOf, stateOf, wrongOrigin } from './presets.ts'

it('a key is a preset by its scopes', () => {
  expect(presetOf({ scopes: ['events:write'], allowed_origins: null })).toBe('server')
  expect(presetOf({ scopes: ['events:write'], allowed_origins: ['https://a.example'] })).toBe('browser')
  expect(presetOf({ scopes: ['cohorts:read', 'stats:read'], allowed_origins: null })).toBe('dashboard')
  expect(presetOf({ scopes: ['events:write', 'stats:read'], allowed_origins: null })).toBe('custom')
})

it('a key of web pages gets its site and a limit for each address, and one of servers gets rid of the limit', () => {
  const draft = { ...newDraft('prod', null), name: 'key' }
  const browser = { ...draft, ...presetChanges(draft, 'browser', 'shop') }
  const limited = { site_ids: ['shop'], rate_limits: { events_per_minute_per_address: 300 } }
  expect(bodyOf(browser, 0, undefined)).toMatchObject(limited)
  const server = { ...browser, ...presetChanges(browser, 'server', 'shop') }
  expect(bodyOf(server, 0, undefined)).toMatchObject({ site_ids: ['shop'], rate_limits: null })
  // What was chosen or typed before stays.
  const chosen = { ...draft, siteIds: ['blog'], limits: { ...draft.limits, events_per_minute_per_address: '60' } }
  for (const preset of ['browser', 'server'] as const) {
    expect({ ...chosen, ...presetChanges(chosen, preset, 'shop') }).toEqual({ ...chosen, preset })
  }
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
