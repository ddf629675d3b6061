import { listVariable } from '@sluice/runtime/variables'
import { clientReader } from './client-address.ts'

/** SLUICE_TRUSTED_PROXIES of every service that clients reach. */
export const trustedProxies = listVariable(
  'Proxies whose X-Forwarded-For, -Proto and -Host are believed: addresses, networks (10.0.0.0/8), or loopback, linklocal, uniquelocal; with commas between them.',
  (proxies) => clientReader(proxies),
)

/** SLUICE_CORS_ORIGINS of services with routes under /api/v1. */
export const corsOrigins = listVariable(
  'Origins whose pages may call /api/v1 with a key, e.g. https://intranet.example; with commas between them. /collect answers any origin.',
  (origins) => {
    for (const origin of origins) {
      if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
        throw new Error('must name origins as browsers send them, e.g. https://intranet.example')
      }
    }
  },
)
