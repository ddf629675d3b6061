import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { addWebhook } from '../../tests/support/webhooks.ts'
import { encryptTarget, updateEndpoint } from './endpoints.ts'
import { countOtherKey, reencryptEndpoints } from './reencrypt.ts'

const [oldKey, newKey] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')]
const before = createSecretCipher(oldKey)
const both = createSecretCipher(newKey, oldKey)
const after = createSecretCipher(newKey)

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await postgres.db.deleteFrom('endpoints').execute()
})

const url = 'http://127.0.0.1:9/hook'

/** Stores an endpoint with the old key. */
const add = (parts: Parameters<typeof addWebhook>[1] = {}) =>
  addWebhook(postgres, {
    ...encryptTarget(before, parts.channel ?? 'webhook', parts.url ?? url),
    encryptedSecret: before.encrypt('secret'),
    ...parts,
  })

const endpoint = (endpointId: string) =>
  postgres.db.selectFrom('endpoints').selectAll().where('endpoint_id', '=', endpointId).executeTakeFirstOrThrow()

const keepPrevious = (endpointId: string, previousEncryptedSecret: Buffer, previousSecretUntil: number) =>
  updateEndpoint(postgres.db, endpointId, { previousEncryptedSecret, previousSecretUntil }, Date.now())

test('targets, secrets and those before a rotation are re-encrypted, and nothing else changes', async () => {
  const webhook = await add()
  await keepPrevious(webhook, before.encrypt('former'), Date.now() + 3_600_000)
  const mail = await add({
    owner: 'alert_rule',
    channel: 'email',
    url: '["a@b.example"]',
    encryptedSecret: null,
    siteId: 'blog',
  })
  const was = await endpoint(webhook)
  expect(await countOtherKey(postgres, both)).toBe(2)
  expect(await reencryptEndpoints(postgres, both)).toBe(2)
  expect(await countOtherKey(postgres, after)).toBe(0)
  const { target_box, target_fingerprint, secret_box, previous_secret_box, ...rest } = await endpoint(webhook)
  expect([target_box, secret_box, previous_secret_box].map((box) => box && after.decrypt(box))).toStrictEqual([
    url,
    'secret',
    'former',
  ])
  expect(target_fingerprint).toStrictEqual(encryptTarget(after, 'webhook', url).targetFingerprint)
  expect(was).toMatchObject(rest)
  const rule = await endpoint(mail)
  expect([after.decrypt(rule.target_box), rule.secret_box]).toStrictEqual(['["a@b.example"]', null])
  expect(rule.target_fingerprint).toStrictEqual(after.fingerprint('["a@b.example"]'))
  expect(await reencryptEndpoints(postgres, both)).toBe(0)
  expect(await reencryptEndpoints(postgres, after)).toBe(0)
})

test('workers that seal anew at once, and a user who moves a webhook meanwhile, lose nothing', async () => {
  const ids = await Promise.all(Array.from({ length: 50 }, (_, n) => add({ url: `${url}/${n}` })))
  const [moved = ''] = ids
  const target = encryptTarget(both, 'webhook', `${url}/moved`)
  const counts = await Promise.all([
    reencryptEndpoints(postgres, both),
    reencryptEndpoints(postgres, both),
    postgres.db.transaction().execute(async (transaction) => {
      await updateEndpoint(transaction, moved, target, Date.now())
      return 0
    }),
    reencryptEndpoints(postgres, both),
  ])
  // The webhook that was moved has its secret, at least, of the old key.
  expect(counts.reduce((sum, count) => sum + count)).toBe(50)
  const targets = await Promise.all(ids.map(async (id) => after.decrypt((await endpoint(id)).target_box)))
  expect(targets).toStrictEqual(ids.map((_, n) => `${url}/${n === 0 ? 'moved' : n}`))
})

test('at every moment the endpoints of a site with one URL have one fingerprint', async () => {
  for (let n = 0; n < 30; n += 1) await add()
  let isDone = false
  const seen = new Set<number>()
  const watch = async () => {
    while (!isDone) {
      const rows = await postgres.db.selectFrom('endpoints').select('target_fingerprint').distinct().execute()
      seen.add(rows.length)
    }
  }
  const watching = watch()
  await reencryptEndpoints(postgres, both)
  isDone = true
  await watching
  expect([...seen]).toStrictEqual([1])
})

test('a ciphertext that neither key decrypts stays and is counted, except a secret whose time is over', async () => {
  const lost = createSecretCipher(randomBytes(32).toString('hex'))
  const unreadable = await add({ encryptedSecret: lost.encrypt('x') })
  const over = await add({ siteId: 'blog' })
  await keepPrevious(over, lost.encrypt('x'), Date.now() - 1_000)
  expect(await reencryptEndpoints(postgres, both)).toBe(2)
  expect(await countOtherKey(postgres, both)).toBe(1)
  const { target_box, secret_box } = await endpoint(unreadable)
  expect([after.decrypt(target_box), secret_box && lost.decrypt(secret_box)]).toStrictEqual([url, 'x'])
  await keepPrevious(over, lost.encrypt('x'), Date.now() + 3_600_000)
  expect(await countOtherKey(postgres, both)).toBe(2)
})
