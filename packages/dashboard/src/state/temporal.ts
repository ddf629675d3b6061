import type { Temporal as TemporalApi } from 'temporal-polyfill'

let loaded: typeof TemporalApi | undefined

/**
 * Provides Temporal: the browser's own, else a polyfill, which is fetched only then. To be awaited before the first
 * render.
 */
export async function loadTemporal(): Promise<void> {
  const own = (globalThis as { Temporal?: typeof TemporalApi }).Temporal
  loaded = own ?? (await import('temporal-polyfill')).Temporal
}

/** Temporal, once `loadTemporal` is done. Throws before. */
export function temporal(): typeof TemporalApi {
  if (loaded === undefined) throw new Error('loadTemporal was not awaited')
  return loaded
}
