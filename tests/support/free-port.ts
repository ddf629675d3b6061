import { randomInt } from 'node:crypto'
import { isFreePort } from '@sluice/engines/processes'

/**
 * Ports that neither embedded engines nor outgoing connections use (packages/engines/processes.ts). Each of Jest's
 * processes has its own range, because a service listens only seconds after its port was found: until then, no other
 * process may find the same port.
 */
const ports = { first: 10_000, slices: 5, perSlice: 1_000 } as const

const slice = Number(process.env.JEST_WORKER_ID ?? 0) % ports.slices
let next = randomInt(ports.perSlice)

/** A TCP port of 127.0.0.1 that is free at this moment, and that no other call gets for a long time. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = ports.first + slice * ports.perSlice + (next++ % ports.perSlice)
    if (await isFreePort(port)) return port
  }
}
