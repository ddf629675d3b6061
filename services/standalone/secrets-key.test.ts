import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { secretsKeyOf } from './secrets-key.ts'

let folder: string
let data: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-secrets-key-'))
  data = join(folder, 'new', 'data')
})

afterEach(async () => {
  await rm(folder, { recursive: true })
})

const keyOf = (key?: string): Promise<string> => secretsKeyOf({ SLUICE_SECRETS_KEY: key, SLUICE_DATA_DIR: data })

test('the first start makes a key that only this user may read, and later ones find it', async () => {
  const key = await keyOf()
  expect((await stat(join(data, 'secrets.key'))).mode & 0o777).toBe(0o600)
  expect(await readdir(data)).toStrictEqual(['secrets.key'])
  expect(createSecretCipher(key).decrypt(createSecretCipher(await keyOf()).encrypt('text'))).toBe('text')
})

test('a key that is set makes no file', async () => {
  expect(await keyOf('set')).toBe('set')
  expect(await readdir(folder)).toStrictEqual([])
})

test('a file without a key is named, and is left as it is', async () => {
  await keyOf()
  await writeFile(join(data, 'secrets.key'), 'nothing')
  await expect(keyOf()).rejects.toMatchObject({
    internal: expect.stringMatching(/secrets\.key holds no key\. Restore the file, or set SLUICE_SECRETS_KEY/),
  })
})
