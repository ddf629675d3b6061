import { attempt } from './attempt.ts'
import type { Store } from './queue.ts'

/**
 * Keeps the queue in sessionStorage until the tab is closed, one item for each event. `name`: prefix of the item names,
 * with the id of the site, which has no line break.
 */
export function openTabStore(storage: Storage, name: string, onFailure: () => void): Store {
  const prefix = `${name}\n`
  const store: Store = {
    save: (each, value) =>
      attempt(() => {
        storage.setItem(prefix + each, value)
      }, onFailure),
    remove: (each) => {
      storage.removeItem(prefix + each)
    },
    swap: (each, next, value) => {
      store.remove(each)
      store.save(next, value)
    },
    load: (count) =>
      Object.keys(storage)
        .filter((each) => each.startsWith(prefix))
        .sort()
        .slice(0, count)
        // A duplicated tab has a copy of the queue. If both tabs corrected the time of an event, it would become two
        // events: so the time of an event from an earlier page is final.
        .map((each) => (storage[each] as string).replace(/^0/, '1')),
  }
  return store
}
