// A worker that sends deliveries in a separate process, for tests that kill it. The parent process moves the clock: it
// sends `{ advance: ms }`, and the worker answers when it waits only for time to pass.
import { setImmediate, setTimeout } from 'node:timers/promises'
import { leaseMetrics } from '@sluice/leases/metrics'
import { openOutbound } from '@sluice/outbound/open-outbound'
import type { Outbound } from '@sluice/outbound/outbound'
import { type DeliveryQueue, deliveryQueue } from '@sluice/postgres/delivery-queue'
import { openPostgres } from '@sluice/postgres/open'
import { createLogger } from '@sluice/runtime/logger'
import { createMetrics } from '@sluice/runtime/metrics'
import { deliveryMetrics } from '@sluice/worker/webhooks/metrics'
import { deliverySender } from '@sluice/worker/webhooks/sender'
import { virtualClock } from '../support/virtual-clock.ts'
import { testSecrets } from '../support/webhooks.ts'

const { POSTGRES_URL = '', NOW, TIMEOUT_MS } = process.env
const clock = virtualClock(Number(NOW))
const postgres = openPostgres(POSTGRES_URL)
const queue: DeliveryQueue = deliveryQueue(postgres)
const outbound: Outbound = openOutbound({
  allowedNetworks: ['127.0.0.0/8'],
  timeoutMs: Number(TIMEOUT_MS),
  now: () => clock.now(),
})
let underWay = 0

/** The call, counted while it is under way. */
function counted<Args extends unknown[], Result>(call: (...args: Args) => Promise<Result>) {
  return async (...args: Args): Promise<Result> => {
    underWay += 1
    try {
      return await call(...args)
    } finally {
      underWay -= 1
    }
  }
}

async function quiet(): Promise<void> {
  for (let calm = 0; calm < 5; calm += 1) {
    await setImmediate()
    while (underWay > 0) {
      calm = 0
      await setTimeout(1)
    }
  }
}

process.on('message', ({ advance }: { advance: number }) => {
  void clock
    .advance(advance)
    .then(quiet)
    .then(() => process.send?.('quiet'))
})
process.on('disconnect', () => process.exit(0))

const metrics = createMetrics()
void deliverySender({
  queue: {
    ...queue,
    take: counted((...call) => queue.take(...call)),
    record: counted((...call) => queue.record(...call)),
  },
  outbound: { ...outbound, post: counted((...call) => outbound.post(...call)) },
  secrets: testSecrets,
  clock,
  logger: createLogger({ service: 'worker', level: 'error' }),
  metrics: deliveryMetrics(metrics),
  leaseMetrics: leaseMetrics(metrics),
}).run?.(new AbortController().signal)
await quiet()
process.send?.('quiet')
