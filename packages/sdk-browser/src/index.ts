import { createCore } from './core.ts'
import type { Options, Properties, Sluice } from './types.ts'

export type {
  Consent,
  Context,
  FlushResult,
  Options,
  PageEvent,
  Properties,
  Receipt,
  Sluice,
  SluiceEvent,
  StorageKind,
} from './types.ts'

/**
 * Creates the SDK for a site. `Events`: the properties of each event type, e.g. `{ signup: { plan: string } }`; any by
 * default. Never throws: wrong options are reported on the console and to `onError`.
 */
export function createSluice<Events extends object = Record<string, Properties>>(options: Options): Sluice<Events> {
  return createCore(options)
}
