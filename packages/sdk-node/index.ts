import { openSluice } from './open-sluice.ts'
import type { AnyEvents, EventMap, Options, Receipt, Sluice } from './types.ts'

export type * from './types.ts'

/**
 * Creates a client that queues events and sends them in the background. It does not keep the process running and
 * installs no signal handlers: call `close()` before the process ends. Throws a TypeError that names each wrong option.
 */
export function createSluice<Events extends EventMap<Events> = AnyEvents>(
  options: Options & { onFull: 'wait' },
): Sluice<Events, Promise<Receipt>>
export function createSluice<Events extends EventMap<Events> = AnyEvents>(
  options: Options & { onFull?: 'reject' | undefined },
): Sluice<Events>
/** For options whose `onFull` is not known at compile time. */
export function createSluice<Events extends EventMap<Events> = AnyEvents>(
  options: Options,
): Sluice<Events, Receipt | Promise<Receipt>>
export function createSluice<Events extends EventMap<Events>>(
  options: Options,
): Sluice<Events> | Sluice<Events, Promise<Receipt>> {
  return openSluice<Events>(options)
}
