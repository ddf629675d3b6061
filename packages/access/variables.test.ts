import { expect, test } from '@jest/globals'
import { ConfigError, loadConfig } from '@sluice/runtime/config'
import { generateKey } from './api-key.ts'
import { adminKey } from './variables.ts'

const load = (key: string) => loadConfig({ SLUICE_ADMIN_KEY: adminKey }, { SLUICE_ADMIN_KEY: key })

test('a key is accepted as SLUICE_ADMIN_KEY', () => {
  const key = generateKey('prod')
  expect(load(key)).toStrictEqual({ SLUICE_ADMIN_KEY: key })
})

test.each([
  ['half a key', generateKey('prod').slice(0, 30)],
  ['a mistyped key', `svc_prod_${'a'.repeat(34)}`],
  ['a key with a line’s end', `${generateKey('prod')}\n`],
  ['anything else', 'letmein'],
])('%s is refused as SLUICE_ADMIN_KEY, and not printed', (_what, key) => {
  expect(() => load(key)).toThrow(ConfigError)
  expect(() => load(key)).toThrow('SLUICE_ADMIN_KEY is not a key')
  expect(() => load(key)).not.toThrow(key)
})
