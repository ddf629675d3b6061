import { afterAll, afterEach, beforeAll } from '@jest/globals'
import { createSluice, type Options, type Sluice, type SluiceError } from '@sluice/node'
import { type CollectProxy, type ProxiedRequest, startCollectProxy } from '../support/collect-proxy.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'

export type AnySluice = Sluice<Record<string, object>>

/** What tests of the Node SDK have. */
export interface SdkRig {
  gateway: TestGateway
  /** The proxy between the clients and the gateway. After each test it forwards everything again. */
  proxy: CollectProxy
  /** What the clients of `open` and `optionsOf` were told in this test. */
  readonly errors: SluiceError[]
  optionsOf: (site: string, more?: Partial<Options>) => Options
  /** A client that is closed after the test. */
  open: (site: string, more?: Partial<Omit<Options, 'onFull'>>) => AnySluice
  /** Has another client closed after the test. */
  closeLater: (sluice: Pick<AnySluice, 'close'>) => void
  /** The requests with events of a site, and the ids of the events in each. */
  requestsOf: (site: string) => ProxiedRequest[]
  idsOf: (site: string) => string[][]
}

/** One gateway for the tests of a file. `gateway` and `proxy` are there once they run. */
export function useSdk(): SdkRig {
  const opened: Pick<AnySluice, 'close'>[] = []
  const rig = {
    errors: [] as SluiceError[],
    optionsOf: (site: string, more: Partial<Options> = {}) => {
      const onError = (error: SluiceError) => rig.errors.push(error)
      return { url: rig.proxy.url, key: rig.gateway.keys.prod, site, onError, ...more }
    },
    open: (site: string, more: Partial<Omit<Options, 'onFull'>> = {}) => {
      const sluice: AnySluice = createSluice({ ...rig.optionsOf(site, more), onFull: 'reject' })
      opened.push(sluice)
      return sluice
    },
    closeLater: (sluice: Pick<AnySluice, 'close'>) => {
      opened.push(sluice)
    },
    requestsOf: (site: string) =>
      rig.proxy.requests.filter(({ events }) => events.some((each) => each.site_id === site)),
    idsOf: (site: string) => rig.requestsOf(site).map(({ events }) => events.map(({ event_id }) => event_id)),
  } as SdkRig

  beforeAll(async () => {
    rig.gateway = await startGateway()
    rig.proxy = await startCollectProxy(rig.gateway.service.url, { isPatient: true })
  })

  afterEach(async () => {
    await Promise.all(opened.splice(0).map((each) => each.close({ timeoutMs: 0 })))
    rig.proxy.treat = () => ({ kind: 'forward' })
    rig.errors.length = 0
  })

  afterAll(async () => {
    await rig.proxy.stop()
    await rig.gateway.stop()
  })

  return rig
}
