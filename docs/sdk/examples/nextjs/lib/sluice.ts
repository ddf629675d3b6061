import { createSluice, type Sluice } from '@sluice/node'

interface ShopEvents {
  purchase: { total: number }
}

let client: Sluice<ShopEvents> | undefined

/** The one client of this process. It is created by the first request, so that `next build` needs no key. */
export function sluice(): Sluice<ShopEvents> {
  client ??= createSluice<ShopEvents>({
    url: process.env.SLUICE_URL ?? 'http://localhost:8080',
    key: process.env.SLUICE_KEY ?? '',
    site: 'shop',
  })
  return client
}
