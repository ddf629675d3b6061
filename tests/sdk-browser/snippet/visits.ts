import { expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Shop, siteId } from './use-shop.ts'

/** What is tracked of a visit. */
export function testVisits(shop: Shop): void {
  const { open, sent, stored, tag, visitors } = shop

  /** Serves /api of the site. Its requests' headers `baggage` are added to the list. */
  const serveApi = (): unknown[] => {
    const seen: unknown[] = []
    shop.site.serve('/api', (request, response) => {
      seen.push(request.headers.baggage)
      response.writeHead(204).end()
    })
    return seen
  }

  it('tracks a visit by one line of HTML, and Sluice stores it', async () => {
    shop.site.show(tag())
    const { page } = await visitors.open()
    await page.goto(`${shop.site.url}/shoes?colour=red#top`, { referer: 'https://search.example/' })
    await page.evaluate(`sluice.track('purchase', { price: 9.5, tags: ['a'] }); sluice.flush()`)
    const events = await sent(2)
    await waitUntil(async () => (await stored()).length === 2, 'both are stored')
    const rows = await stored()
    expect(rows.map(({ event_id }) => event_id).sort()).toEqual(events.map(({ event_id }) => event_id).sort())
    const [view, purchase] = ['page_view', 'purchase'].map((type) => rows.find((row) => row.event_type === type))
    expect(view).toMatchObject({
      url: `${shop.site.url}/shoes?colour=red`,
      referrer: 'https://search.example/',
      device_type: 'desktop',
      properties: { title: 'A shop' },
      session_id: expect.stringMatching(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/),
    })
    expect(purchase).toMatchObject({ session_id: view?.session_id, properties: { price: 9.5, tags: ['a'] } })
    // No preflight: a text with the key in its address needs none.
    expect(shop.proxy.requests.map(({ method }) => method)).not.toContain('OPTIONS')
  })

  it('runs the calls that were made before it was there', async () => {
    shop.site.show(
      `<script>(window.sluice ??= { q: [] }).q.push(['track', 'early', { n: 1 }])</script>${tag({ 'data-auto-page': 'false' })}`,
    )
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    await page.evaluate(`sluice.q.push(['track', 'late'], ['flush'])`)
    expect((await sent(2)).map(({ event_type }) => event_type)).toEqual(['early', 'late'])
  })

  it('takes null for nothing, and goes on with the calls after it', async () => {
    shop.site.show(
      `<script>(window.sluice ??= { q: [] }).q.push(['track', 'nothing', null, null], ['track', 'next'])</script>${tag({ 'data-auto-page': 'false' })}`,
    )
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    await page.evaluate('sluice.flush()')
    expect((await sent(2)).map(({ event_type }) => event_type)).toEqual(['nothing', 'next'])
  })

  /** Takes a step on the page, after whose tasks so many page views have been sent. */
  const expectViews = async (page: Page, count: number, step = '') => {
    await page.evaluate(`new Promise((resolve) => { ${step}; setTimeout(resolve) })`)
    await waitUntil(async () => {
      await page.evaluate('sluice.flush()')
      return shop.proxy.events('page_view').length >= count
    }, `${count} page views are sent`)
    expect(shop.proxy.events('page_view')).toHaveLength(count)
  }

  it('counts pages of scripts by path and query, not by hash, and again when the browser goes back', async () => {
    const { page } = await open({ 'data-auto-page': 'true' })
    await expectViews(page, 1)
    await expectViews(page, 2, `history.pushState(0, '', '/a#token=secret')`)
    await expectViews(page, 2, `location.hash = 'x'`)
    await expectViews(page, 3, `history.pushState(0, '', '/a?b=1')`)
    await expectViews(page, 4, 'history.back()')
    const paths = shop.proxy.events('page_view').map(({ url }) => String(url).slice(shop.site.url.length))
    expect(paths).toEqual(['/', '/a', '/a?b=1', '/a'])
    expect(shop.proxy.events('page_view').map(({ referrer }) => referrer)).toEqual([
      '',
      `${shop.site.url}/`,
      `${shop.site.url}/a`,
      `${shop.site.url}/a?b=1`,
    ])
  })

  it('counts a page that the browser restores, not with itself as the referrer', async () => {
    const { page } = await open({ 'data-auto-page': 'true' })
    await expectViews(page, 2, `setTimeout(() => history.pushState(0, '', '/a'))`)
    await expectViews(page, 3, `dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)
    const views = shop.proxy.events('page_view').map(({ url, referrer }) => [url, referrer])
    expect(views.slice(1)).toEqual([
      [`${shop.site.url}/a`, `${shop.site.url}/`],
      [`${shop.site.url}/a`, ''],
    ])
  })

  it.each(['false', 'no', 'Off', '0'])('counts no pages with data-auto-page="%s"', async (value) => {
    const { page } = await open({ 'data-auto-page': value })
    await page.evaluate(`sluice.track('later'); sluice.flush()`)
    expect((await sent(1)).map(({ event_type }) => event_type)).toEqual(['later'])
  })

  it('counts hashes on request', async () => {
    const { page } = await open({ 'data-auto-page': 'true', 'data-hash': '' })
    await expectViews(page, 2, `location.hash = '/b'`)
    expect(shop.proxy.events('page_view').map(({ url }) => String(url).slice(shop.site.url.length))).toEqual([
      '/',
      '/#/b',
    ])
  })

  it('goes on with the session on the next page of the tab, and not in another tab', async () => {
    const { page, context } = await open()
    const id = 'sluice.track("x"); sluice.context().session_id'
    const first = await page.evaluate<string>(id)
    await page.goto(`${shop.site.url}/next`)
    expect(await page.evaluate(id)).toBe(first)
    const other = await context.newPage()
    await other.goto(shop.site.url)
    expect(await other.evaluate(id)).not.toBe(first)
  })

  it('begins a session after 30 minutes without an event, and after a day', async () => {
    const { page } = await open()
    const after = (ms: number) =>
      page.evaluate<string>(
        `{ const now = Date.now; Date.now = () => now() + ${ms}; sluice.track('x'); sluice.context().session_id }`,
      )
    const minute = 60_000
    const ids: string[] = []
    for (const ms of [0, 29 * minute, 29 * minute, 31 * minute]) ids.push(await after(ms))
    expect(ids.map((id) => ids.indexOf(id))).toEqual([0, 0, 0, 3])
    for (let passed = 0; passed < 25 * 60; passed += 20) ids.push(await after(20 * minute))
    expect(new Set(ids).size).toBe(3)
  })

  it('gives a session out no longer once it has ended: a request has the one that the next event has', async () => {
    const seen = serveApi()
    const { page } = await open({ 'data-propagate': shop.site.url })
    const ended = await page.evaluate<string>(`sluice.track('before'); sluice.context().session_id`)
    const [begun] = await page.evaluate<string[]>(`{
      const now = Date.now; Date.now = () => now() + 5 * 3_600_000
      fetch('/api').then(() => [sluice.context().session_id]) }`)
    expect(begun).not.toBe(ended)
    expect(seen).toEqual([`sluice.session_id=${begun}`])
    await page.evaluate(`sluice.track('after'); sluice.flush()`)
    expect((await sent(1, 'after'))[0]).toMatchObject({ session_id: begun })
  })

  it('knows a visitor on the device, with one session for all tabs', async () => {
    const { page, context } = await open({ 'data-storage': 'device' })
    const ids = `sluice.track('x'); sluice.context()`
    const first = await page.evaluate<Record<string, string>>(ids)
    expect(first.anonymous_id).toHaveLength(36)
    const other = await context.newPage()
    await other.goto(shop.site.url)
    expect(await other.evaluate(ids)).toEqual(first)
    await other.evaluate(`sluice.identify('ada', { plan: 'team' })`)
    const isKnown = async () => (await page.evaluate('sluice.context().user_id')) === 'ada'
    // What a tab writes into localStorage gets to the process of another one a little later.
    await waitUntil(isKnown, 'the first tab knows the user')
    expect(await page.evaluate(ids)).toMatchObject({ user_id: 'ada' })
    await page.evaluate('sluice.reset()')
    const after = await page.evaluate<Record<string, string>>(ids)
    expect(after.user_id).toBeUndefined()
    expect(after.anonymous_id).not.toBe(first.anonymous_id)
  })

  it.each([
    ['the page deletes its database', false],
    ['the browser clears the storage of its origin', true],
  ])('stores events on the device after %s', async (_, isByBrowser) => {
    const { page, context, expectMessages } = await open({ 'data-storage': 'device' })
    expectMessages(/ERR_/)
    await page.evaluate(`sluice.track('before'); sluice.flush()`)
    if (isByBrowser) {
      const cdp = await context.newCDPSession(page)
      await cdp.send('Storage.clearDataForOrigin', { origin: shop.site.url, storageTypes: 'indexeddb' })
    } else
      await page.evaluate(`new Promise((resolve, reject) => {
        const request = indexedDB.deleteDatabase('sluice:${siteId}')
        request.onsuccess = resolve
        request.onerror = reject
      })`)
    shop.proxy.treat = () => ({ kind: 'cut-before' })
    await page.evaluate(`sluice.track('after'); sluice.flush()`)
    const { origins } = await context.storageState({ indexedDB: true })
    expect(JSON.stringify(origins)).toContain('after')
  })

  it('forgets a visitor in all tabs of the device', async () => {
    const { page, context } = await open({ 'data-storage': 'device' })
    await page.evaluate(`sluice.identify('ada')`)
    const other = await context.newPage()
    await other.goto(shop.site.url)
    await other.evaluate('sluice.reset()')
    const isForgotten = async () => (await page.evaluate('sluice.context().user_id')) === undefined
    await waitUntil(isForgotten, 'the first tab has forgotten the user')
    await page.evaluate(`sluice.track('of nobody'); sluice.flush()`)
    expect((await sent(1, 'of nobody'))[0]).not.toHaveProperty('user_id')
  })

  it('knows the user although the storage is full, and stores who it is once there is room', async () => {
    const { page } = await open()
    const first = await page.evaluate<Record<string, string>>(`sluice.track('x'); sluice.context()`)
    await page.evaluate(`for (let size = 2 ** 24; size >= 1; size /= 2) {
      try { for (;;) sessionStorage.setItem('f' + sessionStorage.length, 'x'.repeat(size)) } catch { /* no room for one more */ }
    }`)
    await page.evaluate(`sluice.identify('ada'); sluice.track('later'); sluice.flush()`)
    for (const type of ['identify', 'later']) expect((await sent(1, type))[0]).toMatchObject({ user_id: 'ada' })
    expect(await page.evaluate('sluice.context()')).toEqual({ ...first, user_id: 'ada' })
    await page.evaluate(`for (const name of Object.keys(sessionStorage)) if (name.startsWith('f')) sessionStorage.removeItem(name)
      sluice.track('y')`)
    await page.goto(`${shop.site.url}/next`)
    expect(await page.evaluate('sluice.context()')).toEqual({ ...first, user_id: 'ada' })
  })

  it('stores a visit under names that scripts of other releases read, too', async () => {
    const { page } = await open({ 'data-storage': 'device' })
    await page.evaluate(`sluice.identify('ada'); sluice.flush()`)
    const stored = await page.evaluate<object>(`JSON.parse(localStorage['sluice:${siteId}'])`)
    expect(Object.keys(stored).sort()).toEqual(['anonymous_id', 'b', 'k', 'last', 'session_id', 'user_id'])
  })

  it('stores and identifies nothing under Global Privacy Control, but counts', async () => {
    shop.site.show(
      `<script>Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })</script>${tag({ 'data-storage': 'device' })}`,
    )
    const { page, context } = await visitors.open()
    await page.goto(`${shop.site.url}/private`)
    await page.evaluate(`sluice.identify('ada'); sluice.flush()`)
    await sent(1, 'identify')
    const events = shop.proxy.events().filter(({ url }) => url === `${shop.site.url}/private`)
    expect(events.map(({ event_type }) => event_type).sort()).toEqual(['identify', 'page_view'])
    for (const event of events) {
      expect(event).not.toHaveProperty('session_id')
      expect(event).not.toHaveProperty('user_id')
      expect(event).not.toHaveProperty('anonymous_id')
    }
    expect(await page.evaluate('[localStorage.length, sessionStorage.length]')).toEqual([0, 0])
    expect((await context.storageState({ indexedDB: true })).origins).toEqual([])
  })

  it('leaves alone the queue of another site of the origin whose id begins with its own', async () => {
    shop.proxy.treat = () => ({ kind: 'cut-before' })
    const { page } = await open({ 'data-site': 'shop:eu' })
    await page.evaluate(`sluice.track('of another site')`)
    shop.site.show(tag({ 'data-auto-page': 'false' }))
    await page.goto(`${shop.site.url}/own`)
    shop.proxy.treat = () => ({ kind: 'forward' })
    expect(await page.evaluate(`sluice.track('own'); sluice.flush()`)).toEqual({ sent: 1, pending: 0, rejected: 0 })
  })

  it('gives no ids to anybody while consent is pending again', async () => {
    const seen = serveApi()
    const { page } = await open({ 'data-propagate': shop.site.url })
    const context = await page.evaluate(`sluice.track('x'); sluice.consent('pending'); sluice.context()`)
    await page.evaluate(`fetch('/api')`)
    expect([context, ...seen]).toEqual([{}, undefined])
  })

  it('reports clicks on links to other hosts, and leaves the click alone', async () => {
    const { page } = await open(
      { 'data-outbound': '' },
      '<a href="https://other.example/x?y=1" target="_blank"><b>out</b></a> <a href="/in">in</a>',
    )
    const handled = await page.evaluate<boolean[]>(`(() => {
      const seen = []
      addEventListener('click', (event) => { seen.push(event.defaultPrevented); event.preventDefault() })
      document.querySelector('b').click()
      document.querySelector('a[href="/in"]').click()
      return seen
    })()`)
    expect(handled).toEqual([false, false])
    const [click] = await sent(1, 'outbound_click')
    expect(click?.properties).toEqual({ url: 'https://other.example/x?y=1' })
    expect(shop.proxy.events('outbound_click')).toHaveLength(1)
  })
}
