import { expect, test } from '@jest/globals'
import { unavailable } from '@sluice/runtime/errors'
import { signInLink } from './sign-in-link.ts'

const codesOf = () => {
  const stored: [string, { keyHash: string }][] = []
  return {
    stored,
    create: (hash: string, signIn: { keyHash: string }) => Promise.resolve(void stored.push([hash, signIn])),
  }
}

test('there is no link without an admin key', async () => {
  const signInCodes = codesOf()
  const keys = { newestAdmin: () => Promise.resolve(undefined) }
  expect(await signInLink('http://localhost', { keys, signInCodes })).toBeUndefined()
  expect(signInCodes.stored).toEqual([])
})

test('there is no link while an engine is unavailable, and a mistake is no such case', async () => {
  const failing = (error: Error) => ({ newestAdmin: () => Promise.reject(error) })
  const signInCodes = codesOf()
  expect(await signInLink('http://localhost', { keys: failing(unavailable('away')), signInCodes })).toBeUndefined()
  await expect(signInLink('http://localhost', { keys: failing(new Error('a mistake')), signInCodes })).rejects.toThrow(
    'a mistake',
  )
})
