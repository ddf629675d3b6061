import { attempt } from './attempt.ts'

/**
 * Removes all that visits have stored under `name`, the prefix with the id of the site, whichever option `storage` they
 * had. It opens no database, as that would create one. `onFailure`: called where the page may not use its storage.
 */
export function wipeVisits(name: string, onFailure: (reason: unknown) => void): void {
  attempt(() => {
    localStorage.removeItem(name)
    for (const each of Object.keys(sessionStorage)) {
      // The visitor's item, and those of queued events. An id of a site has no line break.
      if (`${each}\n`.startsWith(`${name}\n`)) sessionStorage.removeItem(each)
    }
    // Tabs that have it open close it.
    indexedDB.deleteDatabase(name)
  }, onFailure)
}
