import { expect, it } from '@jest/globals'
import { bodyOf, draftOf, editedDraft, type Edits, newDraft, presetEdits } from './key-draft.ts'
import { originsOf, type Preset, presetOf, stateOf, tickMsOf, wrongOrigin } from './presets.ts'

it('a key is a preset by its scopes', () => {
  expect(presetOf({ scopes: ['events:write'], allowed_origins: null })).toBe('server')
  expect(presetOf({ scopes: ['events:write'], allowed_origins: ['https://a.example'] })).toBe('browser')
  expect(presetOf({ scopes: ['cohorts:read', 'stats:read'], allowed_origins: null })).toBe('dashboard')
  expect(presetOf({ scopes: ['events:write', 'stats:read'], allowed_origins: null })).toBe('custom')
})

it('a new key has what the purpose suggests, and what was chosen or typed', () => {
  const bodyAfter = (choices: readonly Preset[], edits: Edits = {}) => {
    const own = { environment: 'prod', site_ids: null } as const
    const chosen = choices.reduce<Edits>(
      (before, preset) => ({ ...before, ...presetEdits(newDraft(own, before, 'shop'), preset) }),
      edits,
    )
    return bodyOf(newDraft(own, chosen, 'shop'), 0, undefined)
  }
  const suggested = { site_ids: ['shop'], rate_limits: { events_per_minute_per_address: 300 } }
  expect(bodyAfter(['browser'])).toMatchObject(suggested)
  expect(bodyAfter(['browser', 'custom'])).toMatchObject({ ...suggested, scopes: ['events:write'] })
  for (const choices of [
    ['browser', 'server'],
    ['browser', 'custom', 'admin'],
  ] as const)
    expect(bodyAfter(choices)).toMatchObject({ site_ids: null, rate_limits: null })
  const typed = { siteIds: ['blog'], limits: { events_per_minute_per_address: '60' } }
  for (const preset of ['browser', 'server', 'custom'] as const)
    expect(bodyAfter([preset], typed)).toMatchObject({
      site_ids: ['blog'],
      rate_limits: { events_per_minute_per_address: 60 },
    })
})

it('another purpose of a key that exists leaves its sites and its limits', () => {
  const kept = { site_ids: null, rate_limits: { events_per_minute_per_address: 300 } }
  const times = { created_at: 0, last_used_at: null, expires_at: null, revoked_at: null }
  const grants = { environment: 'prod', scopes: ['events:write'], allowed_origins: null } as const
  const draft = draftOf({ key_id: 'k', name: 'k', hint: '', ...times, ...grants, ...kept })
  for (const preset of ['browser', 'server', 'admin', 'custom'] as const)
    expect(bodyOf(editedDraft(draft, presetEdits(draft, preset)), 0, undefined)).toMatchObject(kept)
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
  expect(wrongOrigin('https://shop.example/\nhttp://localhost:3000\ncapacitor://localhost')).toBeUndefined()
  for (const text of [
    'shop.example',
    'https://shop.example/path',
    'capacitor://localhost/path',
    'https://shop.example?a',
  ])
    expect(wrongOrigin(`https://a.example ${text}`)).toBe(text)
})

it('a key that expires is expiring until then', () => {
  expect(stateOf({ revoked_at: null, expires_at: null }, 5)).toBe('active')
  expect(stateOf({ revoked_at: null, expires_at: 6 }, 5)).toBe('expiring')
  expect(stateOf({ revoked_at: null, expires_at: 5 }, 5)).toBe('expired')
  expect(stateOf({ revoked_at: 1, expires_at: 6 }, 5)).toBe('revoked')
})

it.each([
  ['works for ever', null, null, 60_000],
  ['is revoked', 1, 6, 60_000],
  ['has expired', null, 5, 60_000],
  ['expires in more than a day', null, 86_400_006, 60_000],
  ['expires within a day', null, 86_400_005, 1_000],
])('the state of a key that %s is looked at as often as it may change', (_, revoked_at, expires_at, expected) =>
  expect(tickMsOf({ revoked_at, expires_at }, 5)).toBe(expected),
)
