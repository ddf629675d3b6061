import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type ProxiedGateway, startGatewayBehindProxy } from '../../tests/support/gateway.ts'
import { type Envelope, request } from '../../tests/support/test-service.ts'

let gateway: ProxiedGateway

beforeAll(async () => {
  gateway = await startGatewayBehindProxy({ isCut: true })
})

afterAll(() => gateway.stop())

/** Waits until `/readyz` answers with a status; resolves to the answer. */
async function waitForStatus(expected: number): Promise<Envelope> {
  let answer: Envelope | undefined
  await waitUntil(async () => {
    const { status, body } = await request(`${gateway.service.url}/readyz`)
    answer = body
    return status === expected
  }, `/readyz answers ${expected}`)
  if (answer === undefined) throw new Error('there is no answer')
  return answer
}

test('a gateway that never reached Postgres is not ready, and one that did stays ready without it', async () => {
  expect(await waitForStatus(503)).toMatchObject({
    error: 'Not ready: postgres',
    data: { missing: { postgres: 'ECONNREFUSED' }, degraded: {} },
  })

  await gateway.proxy.mend()
  expect(await waitForStatus(200)).toMatchObject({ data: { missing: {}, degraded: {} } })

  await gateway.proxy.cut()
  await waitUntil(async () => {
    const { status, body } = await request(`${gateway.service.url}/readyz`)
    expect(status).toBe(200)
    return (body.data as { degraded: Record<string, string> }).degraded.postgres === 'ECONNREFUSED'
  }, 'Postgres is degraded')
})
