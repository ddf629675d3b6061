import { isOrigin } from '@sluice/runtime/origin'
import { listVariable, optionalVariable, secondsVariable } from '@sluice/runtime/variables'
import { clientReader } from './client-address.ts'
import { serverLimits } from './server-limits.ts'

/** SLUICE_TRUSTED_PROXIES of every service that clients reach. */
export const trustedProxies = listVariable(
  'Proxies whose headers X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host are trusted: addresses, networks (10.0.0.0/8), or the words loopback, linklocal and uniquelocal, separated by commas.',
  (proxies) => clientReader(proxies),
)

/** SLUICE_CORS_ORIGINS of services with routes under /api/v1. */
export const corsOrigins = listVariable(
  'Origins whose pages may call /api/v1 with a key, e.g. https://intranet.example, separated by commas. Pages of any origin may call /collect.',
  (origins) => {
    for (const origin of origins) {
      if (!isOrigin(origin)) {
        throw new Error('must name origins as browsers send them, e.g. https://intranet.example')
      }
    }
  },
)

/** SLUICE_COLLECT_URL of the query service. */
export const collectUrl = optionalVariable(
  'Origin of the gateway as clients reach it, e.g. https://collect.example; the dashboard and the command line read it from `GET /api/v1/session`, and `/openapi.json` and `/docs` name it. Default: the origin of the request.',
  (url) => {
    if (!isOrigin(url)) throw new Error('must be an origin, e.g. https://collect.example, without a path')
  },
)

/** SLUICE_KEEP_ALIVE_SECONDS of every service that clients reach. Longer than an hour: Envoy keeps connections for one. */
export const keepAliveSeconds = secondsVariable(
  'Seconds, up to a day, after which an idle connection of a client is closed. A load balancer must close it first: set more seconds than its own limit for idle connections to Sluice, e.g. 620 for the load balancers of Google Cloud, which keep them for 600.',
  serverLimits.keepAliveTimeoutMs / 1000,
  { min: 1, max: 86_400 },
)

/** SLUICE_DRAIN_SECONDS of every service that clients reach. */
export function drainSeconds(defaultSeconds: number) {
  return secondsVariable(
    'Seconds for which a stopping process still accepts requests after `/readyz` has begun to answer 503, so that load balancers move its clients to other processes.',
    defaultSeconds,
  )
}

/** SLUICE_STOP_SECONDS of the query service, whose statements may take 31 s. */
export const stopSeconds = secondsVariable(
  'Seconds within which the process ends after a SIGTERM, at least 6 more than `SLUICE_DRAIN_SECONDS`. A supervisor such as systemd or Kubernetes must wait longer than this before it kills the process.',
  40,
)
