/** What one check found. */
export interface Finding {
  name: string
  state: 'ok' | 'warning' | 'failure' | 'skipped'
  /** What was seen, in a few words. */
  detail: string
  /** What to do about it. */
  advice?: string
}

export function ok(name: string, detail: string): Finding {
  return { name, state: 'ok', detail }
}

export function warning(name: string, detail: string, advice: string): Finding {
  return { name, state: 'warning', detail, advice }
}

export function failed(name: string, detail: string, advice: string): Finding {
  return { name, state: 'failure', detail, advice }
}

export function skipped(name: string, detail: string): Finding {
  return { name, state: 'skipped', detail }
}
