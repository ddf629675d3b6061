import { expect, test } from '@jest/globals'
import { type Environment, loadConfig } from '@sluice/runtime/config'
import { canaryOf, canaryVariables } from './variables.ts'

const url = 'https://collect.example'
const key = 'key-of-the-canary'

const read = (environment: Environment) => canaryOf(loadConfig(canaryVariables, environment))

test('without variables there is no canary', () => {
  expect(read({})).toBeUndefined()
})

test('the site is canary unless another is named', () => {
  const both = { SLUICE_CANARY_COLLECT_URL: url, SLUICE_CANARY_API_KEY: key }
  expect(read(both)?.siteId).toBe('canary')
  expect(read({ ...both, SLUICE_CANARY_SITE: 'probe' })?.siteId).toBe('probe')
})

test.each<[string, Environment, string]>([
  ['the URL alone', { SLUICE_CANARY_COLLECT_URL: url }, 'must be set both, or neither'],
  ['the key alone', { SLUICE_CANARY_API_KEY: key }, 'must be set both, or neither'],
  [
    'a URL with a path',
    { SLUICE_CANARY_COLLECT_URL: `${url}/collect`, SLUICE_CANARY_API_KEY: key },
    'SLUICE_CANARY_COLLECT_URL must be an origin',
  ],
  [
    'a key with a line end in it',
    { SLUICE_CANARY_COLLECT_URL: url, SLUICE_CANARY_API_KEY: `${key}\nx` },
    'SLUICE_CANARY_API_KEY holds characters other than visible ASCII',
  ],
  [
    'a long site',
    { SLUICE_CANARY_COLLECT_URL: url, SLUICE_CANARY_API_KEY: key, SLUICE_CANARY_SITE: 'x'.repeat(65) },
    'SLUICE_CANARY_SITE must have at most 64 characters',
  ],
])('%s is a mistake that says so, without the key', (_, environment, message) => {
  const failure = (() => {
    try {
      read(environment)
      return ''
    } catch (error) {
      return String(error)
    }
  })()
  expect(failure).toContain(message)
  expect(failure).not.toContain(key)
})
