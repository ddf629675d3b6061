/** The result of one check. */
export interface Finding {
  name: string
  state: 'ok' | 'warning' | 'failure' | 'skipped'
  /** The observation, in a few words. */
  detail: string
  /** Advice to the operator. */
  advice?: string
}

/** The finding of a check that passed. */
export function ok(name: string, detail: string): Finding {
  return { name, state: 'ok', detail }
}

/** The finding of a check that found a weakness, with what to do. */
export function warning(name: string, detail: string, advice: string): Finding {
  return { name, state: 'warning', detail, advice }
}

/** The finding of a check that failed, with what to do. */
export function failed(name: string, detail: string, advice: string): Finding {
  return { name, state: 'failure', detail, advice }
}

/** The finding of a check that could not run, with the reason. */
export function skipped(name: string, detail: string): Finding {
  return { name, state: 'skipped', detail }
}
