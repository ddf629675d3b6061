import { text } from 'node:stream/consumers'
import { expect, it } from '@jest/globals'
import { bundle } from '@sluice/browser/bundle'
import { waitUntil } from '@sluice/runtime/wait-until'
import { startSite } from '../support/site.ts'
import { type Shop, siteId } from './use-shop.ts'

/** What the script means for the page that it is on. */
export function testPages(shop: Shop): void {
  const { open, sent, tag, visitors } = shop

  it.each([
    ['site', { site: '' }],
    ['site', { site: undefined }],
    ['key', { key: 'secret' }],
    ['storage', { 'data-storage': 'cookie' }],
    ['url', { 'data-url': 'in.example' }],
  ])('says which option is wrong: %s', async (name, attributes) => {
    const warnings: string[] = []
    shop.site.show(tag(attributes))
    const { page } = await visitors.open()
    page.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
    await page.goto(shop.site.url)
    await page.evaluate(`sluice.track('x', 1n); sluice.page(); sluice.identify(); sluice.flush()`)
    await waitUntil(() => warnings.length > 0, 'the console says what is wrong')
    expect(warnings[0]).toContain(`Sluice: option ${name} is `)
    expect(shop.proxy.requests.filter(({ method }) => method === 'POST')).toEqual([])
  })

  it('tracks as a script within the page, with `data-url`', async () => {
    const attributes = `data-url="${shop.proxy.url}" data-site="${siteId}" data-key="${shop.key}"`
    shop.site.show(`<script ${attributes}>${await bundle('snippet')}</script>`)
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    await page.evaluate('sluice.flush()')
    expect(await sent(1, 'page_view')).toHaveLength(1)
  })

  it('says which options are missing when a module imports it into a page without its element', async () => {
    const script = await bundle('snippet')
    shop.site.serve('/imported.js', (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(script)
    })
    shop.site.show('<script>window.warned = []; console.warn = (text) => warned.push(text)</script>')
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    expect(await page.evaluate(`import('/imported.js').then(() => warned)`)).toEqual([
      expect.stringContaining('Sluice: option key is undefined, not '),
      expect.stringContaining('Sluice: option site is undefined, not '),
    ])
  })

  it('never throws into the page', async () => {
    const { page } = await open()
    const warnings: string[] = []
    page.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
    await page.evaluate(`{
      const round = {}; round.round = round
      for (const call of [['track', 'x', round], ['track', 'x', { n: 1n }], ['track'], ['track', 'x', {}, { timestamp: NaN }],
        ['track', 'x', {}, { timestamp: null }],
        ['track', 'x', { text: 'x'.repeat(40_000) }], ['track', 'x', {}, { event_id: 'x'.repeat(65) }],
        ['page', { get n() { throw new Error('of the page') } }], ['identify', ''], ['identify'], ['identify', null], ['unknown'], ['track', 'last'], ['reset'], ['close'], ['track', 'after']]) sluice.q.push(call)
    }`)
    await waitUntil(() => warnings.length >= 6, 'the console says what is wrong')
    expect((await sent(1)).map(({ event_type }) => event_type)).toEqual(['last'])
  })

  it('gives the ids to servers that the page names, in the header baggage', async () => {
    const api = await startSite()
    const seen: unknown[] = []
    api.serve('/api', (request, response) => {
      seen.push(request.headers.baggage)
      response.writeHead(204, { 'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Headers': 'baggage' }).end()
    })
    try {
      const { page } = await open({ 'data-propagate': api.url, 'data-storage': 'device' })
      await page.evaluate(`sluice.track('x')
        fetch('${api.url}/api', { headers: { baggage: 'other=1' } }).then(() => new Promise((resolve) => {
          const request = new XMLHttpRequest(); request.open('GET', '${api.url}/api'); request.onload = resolve; request.send()
        })).then(() => fetch('/'))`)
      const { session_id = '', anonymous_id = '' } = await page.evaluate<Record<string, string>>('sluice.context()')
      const ours = `sluice.session_id=${session_id},sluice.anonymous_id=${anonymous_id}`
      expect(seen.filter(Boolean)).toEqual([`other=1, ${ours}`, ours])
    } finally {
      api.stop()
    }
  })

  it('counts each page once although the script runs again, as after an error page of Turbo Drive', async () => {
    const { page } = await open({ 'data-auto-page': 'true' })
    await page.evaluate(`new Promise((resolve) => {
      const element = document.querySelector('script[data-site]')
      const again = document.createElement('script')
      for (const { name, value } of element.attributes) again.setAttribute(name, value)
      again.onload = () => setTimeout(resolve)
      element.replaceWith(again)
    }).then(() => {
      history.pushState(0, '', '/a')
      return new Promise((resolve) => setTimeout(resolve))
    }).then(() => sluice.q.push(['track', 'after'], ['flush']))`)
    await sent(1, 'after')
    expect(shop.proxy.events().map(({ event_type }) => event_type)).toEqual(['page_view', 'page_view', 'after'])
  })

  it('counts pages where the browser reports no change of the history, as private windows of Safari', async () => {
    shop.site.show(
      `<script>Object.defineProperty(window, 'navigation', { value: new EventTarget() })</script>${tag({ 'data-auto-page': 'true' })}`,
    )
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    await page.evaluate(
      `new Promise((resolve) => { history.pushState(0, '', '/a'); setTimeout(resolve) }).then(sluice.flush)`,
    )
    expect((await sent(2, 'page_view')).map(({ url }) => String(url).slice(shop.site.url.length))).toEqual(['/', '/a'])
  })

  it('counts pages and clicks, and gives the ids to servers, as a module of a page whose history is read-only', async () => {
    const module = await bundle('index')
    shop.site.serve('/sdk.js', (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(module)
    })
    const seen: unknown[] = []
    shop.site.serve('/api', (request, response) => {
      seen.push(request.headers.baggage)
      response.writeHead(204).end()
    })
    shop.site.show('<script>Object.freeze(History.prototype)</script><a href="https://other.example/">Other</a>')
    const { page } = await visitors.open()
    const warnings: string[] = []
    page.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
    await page.goto(shop.site.url)
    const options = { url: shop.proxy.url, site: siteId, key: shop.key, propagate: [shop.site.url], outbound: true }
    await page.evaluate(`import('/sdk.js').then(async ({ createSluice }) => {
      window.sluice = createSluice(${JSON.stringify(options)})
      const link = document.querySelector('a')
      link.addEventListener('click', (event) => event.preventDefault())
      link.click()
      await fetch('/api')
      history.pushState(0, '', '/a')
      await new Promise((resolve) => setTimeout(resolve))
      await sluice.flush()
    })`)
    expect((await sent(2, 'page_view')).map(({ url }) => String(url).slice(shop.site.url.length))).toEqual(['/', '/a'])
    expect(shop.proxy.events('outbound_click')).toMatchObject([{ properties: { url: 'https://other.example/' } }])
    expect(seen).toEqual([expect.stringContaining('sluice.session_id=')])
    expect(warnings).toEqual([expect.stringMatching(/^Sluice: TypeError: .*pushState/)])
  })

  it('leaves the rest of a request to such a server as it is', async () => {
    const seen: unknown[] = []
    shop.site.serve('/api', (request, response) => {
      text(request).then((body) => {
        seen.push([request.method, request.headers.baggage !== undefined, request.headers['x-own'], body])
        response.writeHead(204).end()
      }, response.destroy.bind(response))
    })
    const { page } = await open({ 'data-propagate': shop.site.url })
    await page.evaluate(`(async () => {
      const post = (body) => ({ method: 'POST', body, headers: { 'x-own': '1' } })
      await fetch('/api', post('fields'))
      await fetch(new Request('/api', post('a request')))
      // Without a body: that of a request is a stream here, for which Chromium wants HTTP/2.
      await fetch('/api', new Request('/', { method: 'DELETE', headers: { 'x-own': '1' } }))
    })()`)
    expect(seen).toEqual([
      ['POST', true, '1', 'fields'],
      ['POST', true, '1', 'a request'],
      ['DELETE', false, '1', ''],
    ])
  })

  it('knows an origin however it is written, and says so when it is given none', async () => {
    const seen: unknown[] = []
    shop.site.serve('/api', (request, response) => {
      seen.push(request.headers.baggage)
      response.writeHead(204).end()
    })
    const module = await bundle('index')
    shop.site.serve('/sdk.js', (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(module)
    })
    const html = `<script>window.warned = []; console.warn = (text) => warned.push(text)</script>`
    const { page } = await open({ 'data-propagate': `${shop.site.url.toUpperCase()}/v1/,` }, html)
    await page.evaluate(`sluice.track('x'); fetch('/api')`)
    const { session_id = '' } = await page.evaluate<Record<string, string>>('sluice.context()')
    expect(seen).toEqual([`sluice.session_id=${session_id}`])
    const { host, origin } = new URL(shop.site.url)
    for (const propagate of [[origin, 'api.example'], [host], origin]) {
      const options = { url: shop.proxy.url, site: 'other', key: shop.key, autoPage: false, propagate }
      await page.evaluate(`import('/sdk.js').then(({ createSluice }) => createSluice(${JSON.stringify(options)}))`)
    }
    expect(await page.evaluate('warned')).toEqual([
      `Sluice: option propagate is ${origin},api.example, not origins`,
      `Sluice: option propagate is ${host}, not origins`,
      `Sluice: option propagate is ${origin}, not origins`,
    ])
  })

  it('leaves it to the browser to reject what its fetch refuses, with `propagate`, too', async () => {
    const { page } = await open({ 'data-propagate': shop.site.url })
    const outcome = await page.evaluate(`(() => {
      try {
        return fetch('/api', { headers: { 'no name': 'x' } }).catch((error) => 'rejected: ' + error.name)
      } catch (error) {
        return 'thrown: ' + error.name
      }
    })()`)
    expect(outcome).toBe('rejected: TypeError')
  })

  it('gives onError the events that it drops from a full queue', async () => {
    const module = await bundle('index')
    shop.site.serve('/sdk.js', (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(module)
    })
    const { page } = await open()
    const fields = { url: shop.proxy.url, site: siteId, key: shop.key, autoPage: false, storage: 'none' }
    const dropped = await page.evaluate(`import('/sdk.js').then(({ createSluice }) => {
      const dropped = []
      const onError = (error, event) => dropped.push([error.message, event?.event_type])
      for (const [consent, count] of [['pending', 101], ['granted', 1_001]]) {
        const other = createSluice({ ...${JSON.stringify(fields)}, consent, onError })
        for (let n = 0; n < count; n++) other.track(consent + n)
        other.consent('denied')
      }
      return dropped
    })`)
    const message = 'event not sent: queue full'
    // The first twenty events are in a request.
    expect(dropped).toEqual([
      [message, 'pending0'],
      [message, 'granted20'],
    ])
  })

  it('lets `before` change an event without changing the object of the page', async () => {
    const module = await bundle('index')
    shop.site.serve('/sdk.js', (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(module)
    })
    const { page } = await open()
    const options = JSON.stringify({ url: shop.proxy.url, site: siteId, key: shop.key, autoPage: false })
    const properties = await page.evaluate(`import('/sdk.js').then(async ({ createSluice }) => {
      const properties = { email: 'somebody@example.com', plan: 'team' }
      const before = (event) => (delete event.properties.email, event)
      const other = createSluice({ ...${options}, before })
      other.track('changed', properties)
      await other.flush()
      return properties
    })`)
    expect(properties).toEqual({ email: 'somebody@example.com', plan: 'team' })
    expect(shop.proxy.events('changed')).toMatchObject([{ properties: { plan: 'team' } }])
    expect(JSON.stringify(shop.proxy.events('changed'))).not.toContain('somebody@example.com')
  })

  it('runs under a policy without inline scripts', async () => {
    shop.site.show(tag(), {
      'Content-Security-Policy': `default-src 'none'; script-src ${shop.proxy.url}; connect-src ${shop.proxy.url}`,
    })
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    await page.evaluate('sluice.flush()')
    expect(await sent(1, 'page_view')).toHaveLength(1)
  })

  const sample = "{ n, price: 9.5, name: 'A name' }"

  it('does not grow in 1,000 page views, and takes less time for an event than JSON for 1,000 of them', async () => {
    const { page, context } = await open({ 'data-auto-page': 'true' })
    const cdp = await context.newCDPSession(page)
    const heap = async () => {
      await cdp.send('HeapProfiler.collectGarbage')
      return (await cdp.send('Runtime.getHeapUsage')).usedSize
    }
    const views = (count: number) =>
      page.evaluate(`(async () => {
        for (let n = 0; n < ${count}; n++) {
          history.replaceState(0, '', '/p?' + Math.random())
          await new Promise((resolve) => setTimeout(resolve))
          if (n % 50 === 49) await sluice.flush()
        }
        await sluice.flush()
      })()`)
    await views(200)
    const before = await heap()
    await views(1_000)
    const grown = (await heap()) - before
    // What the browser itself keeps of addresses and requests is no growth of the SDK.
    await page.evaluate('sluice.close()')
    const closed = await heap()
    await views(1_000)
    const grownWithout = (await heap()) - closed
    await page.goto(shop.site.url)
    // CPU time of the page's thread: time by the clock would count what else the machine does.
    await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
    const threadMs = async () => {
      const { metrics } = await cdp.send('Performance.getMetrics')
      return 1_000 * (metrics.find(({ name }) => name === 'ThreadTime')?.value ?? Number.NaN)
    }
    /** The least CPU time of eight runs, in ms: more is what the machine does beside it. */
    const leastMs = async (script: string) => {
      const runs: number[] = []
      for (let run = 0; run < 8; run++) {
        const began = await threadMs()
        await page.evaluate(script)
        runs.push((await threadMs()) - began)
      }
      return Math.min(...runs)
    }
    const eventMs = (await leastMs(`for (let n = 0; n < 100; n++) sluice.track('timed', ${sample})`)) / 100
    const roundTripMs =
      (await leastMs(`for (let n = 0; n < 10000; n++) JSON.parse(JSON.stringify(${sample}))`)) / 10_000
    console.info(
      `heap after 1,000 page views: ${grown} bytes more, without the SDK ${grownWithout}; an event ${eventMs} ms, its round trip through JSON ${roundTripMs} ms`,
    )
    expect(grown - grownWithout).toBeLessThan(300_000)
    // The bar is 2 ms on a telephone: six times the time of a machine whose round trip takes 0.33 µs. Processors
    // differ.
    expect(eventMs / roundTripMs).toBeLessThan(1_000)
    expect(shop.proxy.events('page_view').length).toBeGreaterThanOrEqual(1_200)
  })
}
