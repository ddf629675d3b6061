import { createSluice } from '@sluice/node'

interface ShopEvents {
  order: { total: number }
}

/** One client for all route handlers. */
export const sluice = createSluice<ShopEvents>({
  url: process.env.SLUICE_URL ?? '',
  key: process.env.SLUICE_KEY ?? '',
  site: 'shop',
})
