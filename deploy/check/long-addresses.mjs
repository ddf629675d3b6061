// Asks a service of Sluice for addresses of nearly 16 KiB, the most that it takes, and of more, through HAProxy with
// deploy/haproxy/haproxy.cfg. Fails when HAProxy answers in its place.
// Usage: node deploy/check/long-addresses.mjs
import { denyAll } from '../../packages/access/access.ts'
import { startHaproxy } from '../../tests/support/haproxy.ts'
import { startTestService } from '../../tests/support/test-service.ts'
/* global fetch */

const service = await startTestService({}, denyAll)
const haproxy = await startHaproxy({ gateways: [service.url, service.url], queries: [service.url, service.url] })
try {
  for (const [length, status] of [
    [15.7, 404],
    [16.1, 431],
  ]) {
    const response = await fetch(`${haproxy.queryUrl}/nothing?${'x'.repeat(length * 1024)}`)
    if (response.status !== status || response.headers.get('x-request-id') === null) {
      throw new Error(
        `haproxy.cfg: an address of ${length} KiB is answered ${response.status}: ${await response.text()}`,
      )
    }
  }
} finally {
  await haproxy.stop()
  await service.stop()
}
