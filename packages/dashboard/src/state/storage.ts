/** The settings that the browser remembers; never a secret. */
export type StoredName = 'theme' | 'shortcuts' | 'site'

/** A remembered value; undefined where there is none, or where storage is forbidden. */
export function remembered(name: StoredName): string | undefined {
  try {
    return localStorage.getItem(name) ?? undefined
  } catch {
    return undefined
  }
}

/** Remembers a value, or forgets it. Full or forbidden storage is not an error: the page goes on without. */
export function remember(name: StoredName, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(name)
    else localStorage.setItem(name, value)
  } catch {
    // Nothing is remembered.
  }
}
