import { expect, it } from '@jest/globals'
import type { Shop } from './use-shop.ts'

/** What the script takes from the browser, whose values the pages of these tests replace. */
export function testBrowsers(shop: Shop): void {
  const { open, sent } = shop

  /** A script for the page after which an object of the browser has another value. */
  const withValue = (object: 'navigator' | 'document', name: string, value: unknown): string =>
    `<script>Object.defineProperty(${object}, '${name}', { value: ${JSON.stringify(value)}, configurable: true })</script>`
  const sizes = '[localStorage.length, sessionStorage.length]'

  it.each([
    ['globalPrivacyControl', true],
    ['doNotTrack', '1'],
  ])('sends and stores nothing with data-gpc="off" and the signal %s', async (name, value) => {
    const { page, context } = await open(
      { 'data-gpc': 'off', 'data-auto-page': '' },
      withValue('navigator', name, value),
    )
    await page.evaluate(`sluice.identify('ada'); sluice.track('x'); sluice.consent('granted')`)
    expect(await page.evaluate('sluice.flush()')).toEqual({ sent: 0, pending: 0, rejected: 0 })
    expect(await page.evaluate(`${sizes}.concat(Object.keys(sluice.context()))`)).toEqual([0, 0])
    await page.goto('about:blank')
    expect(shop.proxy.requests.filter(({ method }) => method === 'POST')).toEqual([])
    expect((await context.storageState({ indexedDB: true })).origins).toEqual([])
  })

  it.each([
    ['no ids by default with Do Not Track', withValue('navigator', 'doNotTrack', '1'), undefined, false],
    ['ids without a wish of the visitor', withValue('navigator', 'doNotTrack', '0'), undefined, true],
    ['ids with data-gpc="ignore"', withValue('navigator', 'globalPrivacyControl', true), 'ignore', true],
  ] as const)('sends %s', async (_, html, gpc, hasIds) => {
    const { page } = await open({ 'data-gpc': gpc, 'data-storage': 'device' }, html)
    await page.evaluate(`sluice.identify('ada'); sluice.flush()`)
    const [event = {}] = await sent(1, 'identify')
    const names = ['session_id', 'anonymous_id', 'user_id']
    expect(
      Object.keys(event)
        .filter((field) => names.includes(field))
        .sort(),
    ).toEqual(hasIds ? [...names].sort() : [])
    expect(await page.evaluate(sizes)).toEqual([hasIds ? 1 : 0, 0])
  })

  it('sends and stores nothing while the page is rendered before it is opened, and all of it afterwards', async () => {
    const html = withValue('document', 'prerendering', true)
    const { page } = await open({ 'data-auto-page': '', 'data-storage': 'device' }, html)
    expect(await page.evaluate(`sluice.track('early'); sluice.flush()`)).toEqual({ sent: 0, pending: 1, rejected: 0 })
    await page.evaluate(`dispatchEvent(new Event('visibilitychange'))`)
    expect(await page.evaluate(sizes)).toEqual([0, 0])
    expect(shop.proxy.events()).toEqual([])
    await page.evaluate(`Object.defineProperty(document, 'prerendering', { value: false })
      document.dispatchEvent(new Event('prerenderingchange'))
      new Promise((resolve) => setTimeout(resolve)).then(() => sluice.flush())`)
    const events = await sent(2)
    expect(events.map(({ event_type }) => event_type)).toEqual(['early', 'page_view'])
    for (const event of events) expect(event).toHaveProperty('session_id')
  })

  it('tells phones and tablets from other devices, also an iPad that calls itself a Mac', async () => {
    const { page } = await open()
    const devices = [
      ['Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Mobile/15E148 Safari/604.1', 5, 'mobile'],
      ['Mozilla/5.0 (Linux; Android 15; Pixel 9) Chrome/130.0.0.0 Mobile Safari/537.36', 5, 'mobile'],
      ['Mozilla/5.0 (Linux; Android 15; Pixel Tablet) Chrome/130.0.0.0 Safari/537.36', 5, 'tablet'],
      ['Mozilla/5.0 (Android 15; Tablet; rv:130.0) Gecko/130.0 Firefox/130.0', 5, 'tablet'],
      ['Mozilla/5.0 (iPad; CPU OS 12_0 like Mac OS X) Mobile/15E148 Safari/604.1', 5, 'tablet'],
      ['Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.0 Safari/605.1.15', 5, 'tablet'],
      ['Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.0 Safari/605.1.15', 0, 'desktop'],
      ['Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/130.0.0.0 Safari/537.36', 10, 'desktop'],
    ]
    await page.evaluate(`for (const [userAgent, maxTouchPoints] of ${JSON.stringify(devices)}) {
      for (const [name, value] of Object.entries({ userAgent, maxTouchPoints }))
        Object.defineProperty(navigator, name, { value, configurable: true })
      sluice.track('of a device')
    }
    sluice.flush()`)
    const events = await sent(devices.length, 'of a device')
    expect(events.map(({ device_type: type }) => type)).toEqual(devices.map(([, , type]) => type))
  })

  it('reports a link to another host that the middle button opens, not the menu of the right one', async () => {
    const { page } = await open({ 'data-outbound': '' }, '<a href="https://other.example/x">out</a>')
    await page.evaluate(`addEventListener('auxclick', (event) => event.preventDefault())`)
    await page.click('a', { button: 'right' })
    await page.click('a', { button: 'middle' })
    await sent(1, 'outbound_click')
    await page.evaluate('sluice.flush()')
    expect(shop.proxy.events('outbound_click')).toHaveLength(1)
  })

  it('sends what is queued when it is closed, and nothing that comes later', async () => {
    const { page } = await open({ 'data-auto-page': '' })
    await page.evaluate(`sluice.track('last'); sluice.close()`)
    expect(await sent(1, 'last')).toHaveLength(1)
    await page.evaluate(`sluice.track('after'); history.pushState(0, '', '/next')`)
    await page.evaluate(`dispatchEvent(new Event('pagehide')); sluice.flush()`)
    expect(shop.proxy.events().map(({ event_type }) => event_type)).toEqual(['page_view', 'last'])
  })
}
