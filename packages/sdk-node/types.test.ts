import { expect, test } from '@jest/globals'
import { createSluice, type FlushOptions, type FlushResult, type Options, type Receipt, type Sluice } from './index.ts'

// What must not compile is marked; `npm run typecheck` fails where a mark is not needed.
interface ShopEvents {
  order: { total: number; coupon?: string }
  view: { page?: string }
  logout: { reason?: string }
  'sign up': Record<string, never>
  signed_out: undefined
}

const options = { url: 'http://127.0.0.1:9', key: 'svc_prod_' + 'x'.repeat(34), site: 'shop', onError: () => undefined }

test('declared events take their own types and properties alone', async () => {
  const sluice = createSluice<ShopEvents>(options)
  sluice.track('order', { total: 12.5 }, { user_id: 'ada' })
  sluice.track('view')
  sluice.track('view', { page: '/' })
  sluice.track('logout')
  sluice.track('sign up')
  sluice.track('signed_out')
  sluice.track('signed_out', undefined, { user_id: 'ada' })
  // @ts-expect-error -- the properties have a required one
  sluice.track('order')
  // @ts-expect-error -- total is a number
  sluice.track('order', { total: '12.5' })
  // @ts-expect-error -- no such property
  sluice.track('view', { pages: '/' })
  // @ts-expect-error -- it has no properties
  sluice.track('sign up', { plan: 'pro' })
  // @ts-expect-error -- it has none either
  sluice.track('signed_out', { reason: 'idle' })
  // @ts-expect-error -- no such event
  sluice.track('orders', { total: 1 })
  // @ts-expect-error -- no such field
  sluice.track('view', {}, { userId: 'ada' })
  const receipt: Receipt = sluice.track('view')
  expect(receipt.event_id).toHaveLength(36)
  await sluice.close({ timeoutMs: 0 })
})

test('without declared events every type and every object is taken', async () => {
  const sluice: Sluice = createSluice(options)
  sluice.track('anything', { at: { all: [1, 'two'] } })
  // @ts-expect-error -- properties are an object
  sluice.track('anything', 'text')
  const atOnce: FlushOptions = { timeoutMs: 0 }
  const result: FlushResult = await sluice.close(atOnce)
  expect(result.sent).toBe(0)
})

test("with onFull: 'wait' track returns a promise of its receipt", async () => {
  const sluice = createSluice<ShopEvents>({ ...options, onFull: 'wait' })
  // @ts-expect-error -- it is a promise
  const early: Receipt = sluice.track('view')
  const receipt: Receipt = await sluice.track('view')
  expect(early).toBeInstanceOf(Promise)
  expect(receipt.event_id).toHaveLength(36)
  await sluice.close({ timeoutMs: 0 })
})

test('options of which the type does not tell whether track waits give a receipt or a promise of one', async () => {
  const chosen: Options = { ...options, onFull: 'wait' }
  const sluice = createSluice<ShopEvents>(chosen)
  // @ts-expect-error -- it may be a promise
  const early: Receipt = sluice.track('view')
  expect(early).toBeInstanceOf(Promise)
  const receipt: Receipt = await sluice.track('view')
  expect(receipt.event_id).toHaveLength(36)
  await sluice.close({ timeoutMs: 0 })
})
