import { expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { SentEvent } from '../../support/collect-proxy.ts'
import { type Shop, siteId } from './use-shop.ts'

/** How events are sent, and what becomes of those that are not. */
export function testSending(shop: Shop): void {
  const { open, sent, tag, visitors } = shop

  it('sends a page that ends its last events', async () => {
    const { page } = await open()
    await page.evaluate(`sluice.track('last')`)
    await page.goto('about:blank')
    expect(await sent(1, 'last')).toHaveLength(1)
  })

  it('sends what a request had begun to send when a page ends whose browser does not keep requests alive', async () => {
    const { page, expectMessages } = await open(
      { 'data-storage': 'none' },
      '<script>delete Request.prototype.keepalive</script>',
    )
    expectMessages(/ERR_/)
    // As Firefox before 133 does, the request ends with the page. A beacon arrives.
    shop.proxy.treat = ({ headers }) => ({ kind: headers['sec-fetch-mode'] === 'cors' ? 'cut-before' : 'forward' })
    await page.evaluate(`for (let n = 0; n < 20; n++) sluice.track('last', { n })
      dispatchEvent(new Event('pagehide'))`)
    const beacon = () =>
      shop.proxy.requests.find(({ method, headers }) => method === 'POST' && headers['sec-fetch-mode'] === 'no-cors')
    await waitUntil(() => beacon()?.answer?.status === 202, 'the beacon is answered', 10_000)
    expect(beacon()?.events).toHaveLength(20)
  })

  it('sends a single event by itself after a page was hidden, too', async () => {
    const { page } = await open()
    await page.evaluate(`sluice.track('hidden'); dispatchEvent(new Event('visibilitychange'))`)
    await sent(1, 'hidden')
    // An answer removes the event from the storage.
    await page.waitForFunction(`!Object.keys(sessionStorage).some((name) => name.startsWith('sluice:${siteId}\\n'))`)
    await page.evaluate(`sluice.track('shown')`)
    expect(await sent(1, 'shown')).toHaveLength(1)
  })

  it('counts as sent what the end of a page was sending when flush was called', async () => {
    const { page } = await open()
    const flushed = `sluice.track('leaving'); dispatchEvent(new Event('visibilitychange')); sluice.flush()`
    expect(await page.evaluate(flushed)).toEqual({ sent: 1, pending: 0, rejected: 0 })
  })

  it('sends a page that ends no more than the browser lets it, in bytes', async () => {
    const html = `<script>{
      window.sizes = []
      const { fetch } = window
      window.fetch = (url, init) => { sizes.push(new Blob([init.body]).size); return fetch(url, init) }
    }</script>`
    const { page } = await open({}, html)
    const sizes = await page.evaluate<number[]>(`for (const time of [1, 2]) {
      for (let n = 0; n < 9; n++) sluice.track('large', { time, text: 'ö'.repeat(2_000) })
      dispatchEvent(new Event('visibilitychange'))
    }
    sizes`)
    expect(sizes).toHaveLength(2)
    // All `keepalive` requests of a page that are under way may have 64 KiB.
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(65_536)
    expect(await page.evaluate('sluice.flush()')).toMatchObject({ pending: 0, rejected: 0 })
  })

  it('corrects the events of a user after another one by the time that it has learnt', async () => {
    const { page } = await open()
    await page.evaluate(`{ const now = Date.now; Date.now = () => now() + 7_200_000 }`)
    await page.evaluate(`sluice.identify('ada'); sluice.flush()`)
    const timestamp = await page.evaluate<number>(`sluice.reset(); sluice.track('of the next').timestamp`)
    expect(Math.abs(timestamp - Date.now())).toBeLessThan(60_000)
    await page.evaluate('sluice.flush()')
    expect((await sent(1, 'of the next'))[0]).not.toHaveProperty('user_id')
  })

  it('sends events again whose answer was cut off, and learns which of them are refused', async () => {
    const { page, expectMessages } = await open()
    expectMessages(/ERR_/)
    shop.proxy.treat = () => ({ kind: shop.proxy.events('refused').length > 1 ? 'forward' : 'cut-within' })
    const far = Date.now() + 3 * 86_400_000
    const cut = `sluice.track('good'); sluice.track('refused', {}, { timestamp: ${far} }); sluice.flush()`
    expect(await page.evaluate(cut)).toEqual({ sent: 0, pending: 2, rejected: 0 })
    await page.evaluate('sluice.flush()')
    expect(shop.proxy.events('refused')).toHaveLength(2)
    expect(await page.evaluate(`sluice.track('last'); sluice.flush()`)).toEqual({ sent: 1, pending: 0, rejected: 0 })
  })

  it('waits for Retry-After, and for the reset of a limit', async () => {
    const { page, expectMessages } = await open()
    expectMessages(/429/)
    const arrivals: number[] = []
    shop.proxy.treat = () => {
      arrivals.push(Date.now())
      if (arrivals.length > 1) return { kind: 'forward' }
      return { kind: 'answer', status: 429, headers: { 'Retry-After': '2' } }
    }
    await page.evaluate(`sluice.track('a'); sluice.flush()`)
    await page.evaluate(`sluice.track('b'); sluice.flush()`)
    await waitUntil(() => shop.proxy.events('b').length === 1, 'the events go out again')
    const [refusedAt = 0, repeatedAt = 0] = arrivals
    expect(repeatedAt - refusedAt).toBeGreaterThanOrEqual(2_000)
  })

  it('waits for ten minutes at most, whatever a Retry-After says', async () => {
    const html = `<script>{
      window.delays = []
      const { setTimeout } = window
      window.setTimeout = (run, ms) => { delays.push(ms); return setTimeout(run, ms) }
    }</script>`
    const { page, expectMessages } = await open({}, html)
    expectMessages(/429/)
    // Thirty days are more than a timer can wait.
    shop.proxy.treat = () => ({ kind: 'answer', status: 429, headers: { 'Retry-After': '2592000' } })
    await page.evaluate(`sluice.track('a'); sluice.flush()`)
    const longest = await page.evaluate<number>('Math.max(...delays)')
    expect(longest).toBeGreaterThan(590_000)
    expect(longest).toBeLessThanOrEqual(601_000)
  })

  it('builds and compresses no request while it waits', async () => {
    const html = `<script>{
      window.made = 0
      window.CompressionStream = class extends CompressionStream { constructor(format) { super(format); made++ } }
    }</script>`
    const { page } = await open({}, html)
    const reset = Math.floor(Date.now() / 1_000) + 3_600
    const headers = { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': String(reset) }
    shop.proxy.treat = () => ({ kind: 'answer', status: 202, headers, body: { timestamp: Date.now() } })
    expect(await page.evaluate(`sluice.track('x'); sluice.flush()`)).toMatchObject({ sent: 1 })
    const large = `for (let n = 0; n < 30; n++) sluice.track('large', { text: 'x'.repeat(1_000) })`
    expect(await page.evaluate(`${large}; sluice.flush()`)).toEqual({ sent: 0, pending: 30, rejected: 0 })
    expect(await page.evaluate('made')).toBe(0)
  })

  it('splits a batch that is too large down to the event that is refused, and says so', async () => {
    const { page, expectMessages } = await open(
      {},
      `<script>window.warned = []; console.warn = (text) => warned.push(text)</script>`,
    )
    expectMessages(/413/)
    const isBad = ({ properties }: SentEvent) => (properties as { bad?: boolean } | undefined)?.bad === true
    shop.proxy.treat = ({ events }) =>
      events.some(isBad)
        ? { kind: 'answer', status: 413, body: { success: false, error: 'too large' } }
        : { kind: 'forward' }
    const flushed = await page.evaluate(
      `for (let n = 0; n < 9; n++) sluice.track('split', { n, bad: n === 5 }); sluice.flush()`,
    )
    expect(flushed).toEqual({ sent: 8, pending: 0, rejected: 1 })
    expect(await page.evaluate('warned')).toEqual(['Sluice: too large'])
  })

  it('sends large batches compressed, in text/plain, and never more than 60 KiB', async () => {
    const { page } = await open()
    const flushed = await page.evaluate(
      `for (let n = 0; n < 100; n++) sluice.track('large', { n, text: 'wörter '.repeat(200) }); sluice.flush()`,
    )
    expect(flushed).toMatchObject({ pending: 0, rejected: 0 })
    const posts = shop.proxy.requests.filter(({ method }) => method === 'POST')
    expect(posts.every(({ isGzip }) => isGzip)).toBe(true)
    for (const { events, headers } of posts) {
      expect(Buffer.byteLength(JSON.stringify({ events }))).toBeLessThanOrEqual(61_440)
      expect(headers['content-type']).toBe('text/plain')
    }
    expect(new Set(shop.proxy.events('large').map(({ event_id }) => event_id)).size).toBe(100)
    expect(shop.proxy.requests.map(({ method }) => method)).not.toContain('OPTIONS')
  })

  it('drops the oldest events when there is no room, and reports how many', async () => {
    const { page, expectMessages } = await open({ 'data-storage': 'none' })
    expectMessages(/503/)
    shop.proxy.treat = () => ({ kind: 'answer', status: 503, headers: { 'Retry-After': '1' } })
    await page.evaluate(`sluice.track('first'); sluice.flush()`)
    await page.evaluate(`for (let n = 0; n < 1010; n++) sluice.track('many', { n })`)
    shop.proxy.treat = () => ({ kind: 'forward' })
    const [dropped] = await sent(1, 'sluice_dropped')
    expect(dropped?.properties).toMatchObject({ count: 11, from: expect.any(Number), to: expect.any(Number) })
  })

  it('reports all that it has dropped, also when it drops an earlier report', async () => {
    const { page, expectMessages } = await open({ 'data-storage': 'none' })
    expectMessages(/503/)
    shop.proxy.treat = () => ({ kind: 'answer', status: 503, headers: { 'Retry-After': '1' } })
    const from = await page.evaluate<number>(`{
      const { timestamp } = sluice.track('first'); sluice.flush().then(() => timestamp) }`)
    await page.evaluate(`for (let n = 0; n < 1010; n++) sluice.track('many', { n })`)
    // Once a request has made room, the report is queued. Then there is no room again.
    let left = 1
    shop.proxy.treat = () =>
      left-- > 0 ? { kind: 'forward' } : { kind: 'answer', status: 503, headers: { 'Retry-After': '1' } }
    await waitUntil(() => left < 0, 'the second request fails')
    await page.evaluate(`for (let n = 0; n < 2000; n++) sluice.track('many', { n })`)
    shop.proxy.treat = () => ({ kind: 'forward' })
    const [dropped] = await sent(1, 'sluice_dropped')
    expect(dropped?.properties).toMatchObject({ from })
    expect((dropped?.properties as { count: number }).count).toBeGreaterThan(1_011)
  })

  it('drops no event for the report, however often the page is hidden', async () => {
    const { page, expectMessages } = await open({ 'data-storage': 'none' })
    expectMessages(/503/)
    shop.proxy.treat = () => ({ kind: 'answer', status: 503, headers: { 'Retry-After': '1' } })
    await page.evaluate(`sluice.track('first'); sluice.flush()`)
    await page.evaluate(`for (let n = 0; n < 1010; n++) sluice.track('many', { n })`)
    await page.evaluate(`for (let n = 0; n < 50; n++) dispatchEvent(new Event('visibilitychange'))`)
    shop.proxy.treat = () => ({ kind: 'forward' })
    const [dropped] = await sent(1, 'sluice_dropped')
    expect(dropped?.properties).toMatchObject({ count: 11 })
    const ids = () => new Set(shop.proxy.events('many').map(({ event_id }) => event_id))
    await waitUntil(() => ids().size >= 1_000, 'all other events are sent')
  })

  it('corrects a wrong clock by the time of the answers', async () => {
    const { page } = await open()
    await page.evaluate(`{ const now = Date.now; Date.now = () => now() + 7_200_000 }`)
    await page.evaluate(`sluice.track('wrong'); sluice.flush()`)
    await page.evaluate(`sluice.track('right'); sluice.flush()`)
    const [wrong, right] = [shop.proxy.events('wrong')[0], shop.proxy.events('right')[0]]
    expect((wrong?.timestamp ?? 0) - Date.now()).toBeGreaterThan(7_000_000)
    expect(Math.abs((right?.timestamp ?? 0) - Date.now())).toBeLessThan(60_000)
  })

  it('does not take for a wrong clock that the device slept before it read the answer', async () => {
    const { page } = await open()
    await page.evaluate(`{
      const { fetch } = window
      window.fetch = async (...call) => {
        const response = await fetch(...call)
        const now = Date.now
        Date.now = () => now() + 28_800_000
        return response
      }
    }`)
    await page.evaluate(`sluice.track('early'); sluice.flush()`)
    const timestamp = await page.evaluate<number>(`sluice.track('late').timestamp`)
    expect(timestamp - Date.now()).toBeGreaterThan(28_000_000)
  })

  it('corrects the time of an event that was refused for it, also when the storage of the device fails', async () => {
    const blocked = `<script>IDBFactory.prototype.open = () => { throw new Error('blocked') }</script>`
    shop.site.show(blocked + tag({ 'data-storage': 'device', 'data-auto-page': 'false' }))
    const { page, expectMessages } = await visitors.open()
    expectMessages(/400|storage fails/)
    await page.goto(shop.site.url)
    await page.evaluate(`{ const now = Date.now; Date.now = () => now() + 172_800_000 }`)
    const flushed = await page.evaluate(`sluice.track('of tomorrow'); sluice.flush()`)
    expect(flushed).toEqual({ sent: 1, pending: 0, rejected: 0 })
    const [refused, corrected] = shop.proxy.events('of tomorrow')
    expect((refused?.timestamp ?? 0) - Date.now()).toBeGreaterThan(172_000_000)
    expect(Math.abs((corrected?.timestamp ?? 0) - Date.now())).toBeLessThan(60_000)
  })

  it('keeps its connection to the storage of the device when writes to it fail', async () => {
    const html = `<script>{
      const { open } = IDBFactory.prototype
      const { put } = IDBObjectStore.prototype
      window.opens = 0
      window.aborts = 0
      IDBFactory.prototype.open = function (...call) { opens++; return open.apply(this, call) }
      IDBObjectStore.prototype.put = function (...call) {
        const request = put.apply(this, call)
        this.transaction.addEventListener('abort', () => aborts++)
        this.transaction.abort()
        return request
      }
    }</script>`
    const { page } = await open({ 'data-storage': 'device' }, html)
    for (let n = 1; n <= 20; n++) {
      await page.evaluate(`sluice.track('unkept')`)
      await waitUntil(async () => (await page.evaluate('aborts')) === n, `${n} writes have failed`)
    }
    await page.evaluate('sluice.flush()')
    expect(await sent(20, 'unkept')).toHaveLength(20)
    expect(await page.evaluate('opens')).toBe(1)
  })

  it('goes on after an answer of another service that has a timestamp, too', async () => {
    const { page, expectMessages } = await open()
    expectMessages(/503/)
    const body = { timestamp: Date.now(), data: { errors: null } }
    shop.proxy.treat = () => ({ kind: 'answer', status: 503, body })
    expect(await page.evaluate(`sluice.track('x'); sluice.flush()`)).toMatchObject({ pending: 1 })
    shop.proxy.treat = () => ({ kind: 'forward' })
    expect(await page.evaluate('sluice.flush()')).toEqual({ sent: 1, pending: 0, rejected: 0 })
  })

  it('keeps the events of a site that its key may not use', async () => {
    const { page, expectMessages } = await open({ site: 'another' })
    expectMessages(/400/)
    const pending = { sent: 0, pending: 1, rejected: 0 }
    expect(await page.evaluate(`sluice.track('x'); sluice.flush()`)).toEqual(pending)
  })

  it('stops at a key that may not send, and says why', async () => {
    shop.site.show(
      tag({ key: shop.key.replace(/.$/, (last) => (last === 'x' ? 'y' : 'x')), 'data-auto-page': 'false' }),
    )
    const { page, expectMessages } = await visitors.open()
    expectMessages(/401/)
    const warnings: string[] = []
    page.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
    await page.goto(shop.site.url)
    await page.evaluate(`sluice.track('x'); sluice.flush()`)
    expect(await page.evaluate(`sluice.track('y'); sluice.flush()`)).toEqual({ sent: 0, pending: 2, rejected: 0 })
    await waitUntil(() => warnings.length > 0, 'the console says why')
    expect(warnings).toEqual([expect.stringMatching(/^Sluice: events wait: .*key/i)])
  })
}
