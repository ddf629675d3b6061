import type { Store } from './queue.ts'

/**
 * Keeps the queue in IndexedDB, which all tabs of the origin share: the next visit sends events that are still queued.
 */
export function openDeviceStore(name: string, onFailure: () => undefined): Store {
  let opened: Promise<IDBDatabase> | undefined
  const open = (): Promise<IDBDatabase> =>
    new Promise((resolve, reject) => {
      const request = indexedDB.open(name, 1)
      request.onupgradeneeded = () => request.result.createObjectStore(name)
      request.onerror = reject
      request.onsuccess = () => {
        // The browser has ended the connection, or the page deletes the database: the next use opens it again.
        request.result.onclose = request.result.onversionchange = () => {
          opened = undefined
          request.result.close()
        }
        resolve(request.result)
      }
    })

  /** Resolves with the result of the request of `use` once the transaction is complete; undefined when it failed. */
  const run = <T>(use: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> =>
    (opened ??= open())
      .then(
        (db) =>
          new Promise<T | undefined>((resolve) => {
            const transaction = db.transaction(name, 'readwrite')
            const request = use(transaction.objectStore(name))
            // The connection is still good, e.g. when the storage is full: it is kept.
            transaction.onabort = () => {
              resolve(undefined)
              onFailure()
            }
            transaction.oncomplete = () => {
              resolve(request.result)
            }
          }),
      )
      .catch((): undefined => {
        // There is no connection, or a closed one.
        opened = undefined
        onFailure()
      })

  return {
    save: (each, value) => void run((store) => store.put(value, each)),
    remove: (each) => void run((store) => store.delete(each)),
    // Transactions of several tabs run one after the other: only the first one finds the event under its old name.
    swap: (each, next, value) =>
      run((store) => {
        const request = store.count(each)
        request.onsuccess = () => {
          if (!request.result) return
          store.delete(each)
          store.put(value, next)
        }
        return request
      }),
    load: (count) => run((store): IDBRequest<string[]> => store.getAll(null, count) as IDBRequest<string[]>),
  }
}
