import { describe, expect, test } from '@jest/globals'
import { AppError } from '@sluice/runtime/errors'
import { apiRequest } from '../../tests/support/api-request.ts'
import { gatewayRoutes } from './router.ts'

const event = { site_id: 'shop', event_type: 'x' }

describe.each([
  ['/collect', event],
  ['/collect/batch', { events: [event] }],
])('POST %s', (path, body) => {
  /** A new request for each call, because a handler may release the body. */
  const request = () => apiRequest({ body: { bytes: Buffer.from(JSON.stringify(body)), type: 'application/json' } })

  test('registers the site, then publishes the event, then responds', async () => {
    const steps: string[] = []
    const slowly = async (step: string): Promise<void> => {
      steps.push(`${step} begins`)
      await new Promise(setImmediate)
      steps.push(`${step} ends`)
    }
    const route = gatewayRoutes({
      sites: {
        register: async () => {
          await slowly('register')
          return new Map()
        },
      },
      publisher: { publish: () => slowly('publish') },
      countRejection: () => undefined,
    }).find((each) => each.path === path)
    const answer = await route?.handle(request())
    steps.push(String(answer?.status))
    expect(steps).toStrictEqual(['register begins', 'register ends', 'publish begins', 'publish ends', '202'])
  })

  test('rejects with the error of the log', async () => {
    const refusal = new AppError('unavailable', { message: 'Service temporarily unavailable' })
    const route = gatewayRoutes({
      sites: { register: () => new Map() },
      publisher: { publish: () => Promise.reject(refusal) },
      countRejection: () => undefined,
    }).find((each) => each.path === path)
    await expect(route?.handle(request())).rejects.toBe(refusal)
  })
})
