import { describe, expect, test } from '@jest/globals'
import { SluiceError } from '@sluice/contracts/errors'
import { apiRequest } from '../../tests/api-request.ts'
import { gatewayRoutes } from './router.ts'

const event = { site_id: 'shop', event_type: 'x' }

describe.each([
  ['/collect', event],
  ['/collect/batch', { events: [event] }],
])('POST %s', (path, body) => {
  /** A new one each time: a handler may let go of the body once it has read it. */
  const request = () => apiRequest({ body: { bytes: Buffer.from(JSON.stringify(body)), type: 'application/json' } })

  test('registers the site, then publishes the event, then answers', async () => {
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
    }).find((each) => each.path === path)
    const answer = await route?.handle(request())
    steps.push(String(answer?.status))
    expect(steps).toStrictEqual(['register begins', 'register ends', 'publish begins', 'publish ends', '202'])
  })

  test('answers with the log’s refusal', async () => {
    const refusal = new SluiceError(503, { message: 'Service temporarily unavailable' })
    const route = gatewayRoutes({
      sites: { register: () => new Map() },
      publisher: { publish: () => Promise.reject(refusal) },
    }).find((each) => each.path === path)
    await expect(route?.handle(request())).rejects.toBe(refusal)
  })
})
