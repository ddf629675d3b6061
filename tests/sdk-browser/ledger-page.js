// Runs before the SDK on the pages of the ledger: reports every event once IndexedDB has it, and tracks events.
/* global Event, URLSearchParams, setInterval, IDBObjectStore, Request, crypto, document, fetch, indexedDB, location, sluice, window */
const parameters = new URLSearchParams(location.search)
const report = (value) => void fetch('/reported', { method: 'POST', body: value.slice(1) }).catch(() => {})

const { put } = IDBObjectStore.prototype
IDBObjectStore.prototype.put = function (value, name) {
  const request = put.call(this, value, name)
  this.transaction.addEventListener('complete', () => report(value))
  return request
}
// A browser without keepalive leaves its last events to beacons.
if (parameters.has('beacon')) delete Request.prototype.keepalive
// As a tab that is hidden and shown again: playwright keeps every page visible.
if (parameters.has('hide')) {
  window.addEventListener('load', () => setInterval(() => window.dispatchEvent(new Event('visibilitychange')), 200))
}
const offsetMs = Number(parameters.get('offset') ?? 0)
const now = Date.now.bind(Date)
Date.now = () => now() + offsetMs

/** What the database holds. */
window.readQueue = () =>
  new Promise((resolve, reject) => {
    const request = indexedDB.open(`sluice:${document.documentElement.dataset.site}`, 1)
    request.onupgradeneeded = () => request.transaction.abort()
    request.onerror = () => resolve([])
    request.onsuccess = () => {
      const values = request.result
        .transaction(request.result.objectStoreNames)
        .objectStore(request.result.objectStoreNames[0])
        .getAll()
      values.onerror = reject
      values.onsuccess = () => {
        request.result.close()
        resolve(values.result)
      }
    }
  })
// What earlier pages have left counts as reported, whether they could still say so or not.
window.readQueue().then((values) => values.forEach(report))

const tab = crypto.getRandomValues(new Uint32Array(1))[0]
/** Events of this page. A slow machine must not fill the queue, which drops the oldest events of a full one. */
let count = 0
const countMax = 100
window.countTracked = () => count
const track = () => {
  if (count === countMax) return
  count++
  const words = `${tab} ${count} `.repeat(1 + ((count * 37) % 90))
  sluice.track('step', { tab, count, words, nested: { ok: count % 2 === 0, text: 'ü"\\\u2028' } })
}
if (parameters.has('every')) window.addEventListener('load', () => setInterval(track, Number(parameters.get('every'))))
