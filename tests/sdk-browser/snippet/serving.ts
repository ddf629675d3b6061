import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from '@jest/globals'
import { loadSdk } from '@sluice/browser/load'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Shop, siteId } from './use-shop.ts'

/** How the script is served, and the examples of the documentation. */
export function testServing(shop: Shop): void {
  const { sent, visitors } = shop

  const example = (name: string) =>
    readFileSync(new URL(`../../../docs/sdk/examples/${name}`, import.meta.url), 'utf8')
      .replaceAll('https://in.example', shop.proxy.url)
      .replaceAll('svc_prod_YOUR_KEY', shop.key)

  it('is served with its type, to pages of any origin, for an hour or for ever', async () => {
    const { version, integrity, released } = loadSdk()
    const hourly = 'public, max-age=3600'
    const isReleased = released.some((each) => each.version === version)
    for (const [path, age] of [
      ['/sluice.js', hourly],
      [`/sluice.${version}.js`, isReleased ? 'public, max-age=31536000, immutable' : hourly],
    ]) {
      const coding = { 'Accept-Encoding': 'br' }
      const response = await fetch(`${shop.rig.url}${path ?? ''}`, { headers: coding })
      expect(response.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
      expect(response.headers.get('access-control-allow-origin')).toBe('*')
      expect(response.headers.get('cache-control')).toBe(age)
      expect(response.headers.get('content-encoding')).toBe('br')
      const body = Buffer.from(await response.arrayBuffer())
      expect(`sha384-${createHash('sha384').update(body).digest('base64')}`).toBe(integrity)
      const known = await fetch(`${shop.rig.url}${path ?? ''}`, {
        headers: { ...coding, 'If-None-Match': response.headers.get('etag') ?? '' },
      })
      expect(known.status).toBe(304)
    }
    expect((await fetch(`${shop.rig.url}/sluice.0.0.1.js`)).status).toBe(404)
  })

  it('loads by its version and its hash', async () => {
    const { version, integrity } = loadSdk()
    shop.site.show(
      `<script defer crossorigin integrity="${integrity}" src="${shop.proxy.url}/sluice.${version}.js" data-site="${siteId}" data-key="${shop.key}"></script>`,
    )
    const { page } = await visitors.open()
    await page.goto(`${shop.site.url}/pinned`)
    await page.evaluate('sluice.flush()')
    await waitUntil(
      () => shop.proxy.events().some(({ url }) => url === `${shop.site.url}/pinned`),
      'the page is counted',
    )
  })

  it('runs the calls that the page pushes to the array that it has kept', async () => {
    const html = `<script>window.early = (window.sluice ??= { q: [] }).q</script>`
    shop.site.show(html + shop.tag({ 'data-auto-page': 'false' }))
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    await page.evaluate(`early.push(['track', 'kept'], ['flush'])`)
    expect((await sent(1)).map(({ event_type }) => event_type)).toEqual(['kept'])
  })

  const guide = readFileSync(new URL('../../../docs/sdk/browser.md', import.meta.url), 'utf8')
  const snippets = [...guide.matchAll(/^```js\n(.+?)^```/gms)].flatMap(([, code = '']) =>
    code.includes('window.sluice') ? [code] : [],
  )

  it('may be blocked: the code of the documentation for pages with the script element does not throw', async () => {
    expect(snippets).toHaveLength(2)
    shop.site.serve('/blocked.js', (_request, response) => response.writeHead(404).end())
    shop.site.show('<script defer src="/blocked.js"></script>')
    const { page, expectMessages } = await visitors.open()
    expectMessages(/404/)
    for (const code of snippets) {
      await page.goto(shop.site.url)
      await page.evaluate(`{ const user = { id: 'ada' }; ${code} }`)
    }
  })

  it('loads by the tag of the documentation for Google Tag Manager', async () => {
    const [, tag = ''] = /^```html\n(<script>\n.+?)^```/ms.exec(guide) ?? []
    shop.site.show(tag.replace('https://in.example', shop.proxy.url).replace('<key of the page>', shop.key))
    const { page } = await visitors.open()
    await page.goto(shop.site.url)
    await page.waitForFunction('window.sluice?.flush?.()')
    expect(await sent(1, 'page_view')).toMatchObject([{ site_id: siteId }])
  })

  it('works in the example of a plain page', async () => {
    shop.site.serve('/plain', (_request, response) =>
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(example('plain.html')),
    )
    const { page } = await visitors.open()
    await page.goto(`${shop.site.url}/plain`)
    await page.getByRole('button', { name: 'Buy' }).click()
    await page.evaluate('sluice.flush()')
    expect((await sent(1, 'purchase'))[0]?.properties).toEqual({ price: 9.5, currency: 'EUR' })
  })

  it('waits for the banner of the example of consent, and for nothing on the next page', async () => {
    shop.site.serve('/consent', (_request, response) =>
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(example('consent.html')),
    )
    const { page } = await visitors.open()
    // A page that ends may not have removed what was sent: the next one sends it once more.
    const views = () => {
      const events = shop.proxy.events('page_view').filter(({ url }) => url === `${shop.site.url}/consent`)
      return new Set(events.map(({ event_id }) => event_id)).size
    }
    await page.goto(`${shop.site.url}/consent`)
    await page.evaluate('sluice.flush()')
    expect(views()).toBe(0)
    await page.getByRole('button', { name: 'Yes' }).click()
    await page.evaluate('sluice.flush()')
    expect(views()).toBe(1)
    await page.reload()
    await page.evaluate('sluice.flush()')
    await waitUntil(() => views() === 2, 'the next page is counted')
    expect(await page.getByRole('button', { name: 'Yes' }).isVisible()).toBe(false)
  })

  it('follows, in the example of consent, a decision of another tab, also on a page that the browser restores', async () => {
    shop.site.serve('/consent', (_request, response) =>
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(example('consent.html')),
    )
    const { page, context } = await visitors.open()
    await page.goto(`${shop.site.url}/consent`)
    const yes = page.getByRole('button', { name: 'Yes' })
    await yes.click()
    await page.evaluate('sluice.flush()')
    const views = await sent(1, 'page_view')
    // The page that writes a value gets no event `storage`, nor does a page in the back/forward cache.
    await page.evaluate(`localStorage.setItem('consent', 'denied')
      dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))
      new Promise((resolve) => setTimeout(resolve)).then(() => sluice.flush())`)
    expect(shop.proxy.events('page_view')).toHaveLength(views.length)
    expect(await page.evaluate(`Object.keys(localStorage)`)).toEqual(['consent'])
    const other = await context.newPage()
    await other.goto(`${shop.site.url}/consent`)
    await other.evaluate(`localStorage.setItem('consent', 'granted')`)
    await page.waitForFunction('sluice.track("x") && sluice.context().session_id')
    await other.evaluate(`localStorage.removeItem('consent')`)
    await yes.waitFor()
    expect(await page.evaluate('sluice.context()')).toEqual({})
  })

  it('works through the example of a proxy of the same origin', async () => {
    const file = fileURLToPath(new URL('../../../docs/sdk/examples/first-party-proxy.mjs', import.meta.url))
    const child = spawn(process.execPath, [file], {
      env: { SLUICE_URL: shop.proxy.url, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const [line] = (await once(child.stdout, 'data')) as [Buffer]
      const url = line.toString().trim()
      expect((await fetch(`${url}/in/api/v1/sites`)).status).toBe(404)
      shop.site.show(`<script defer src="${url}/in/sluice.js" data-site="${siteId}" data-key="${shop.key}"></script>`)
      const { page } = await visitors.open()
      await page.goto(`${shop.site.url}/proxied`)
      await page.evaluate('sluice.flush()')
      await waitUntil(
        () => shop.proxy.events().some(({ url: seen }) => seen === `${shop.site.url}/proxied`),
        'the page is counted',
      )
      shop.proxy.treat = () => ({ kind: 'cut-within' })
      const cut = fetch(`${url}/in/collect/batch`, { method: 'POST', body: '{}' }).then((answer) => answer.text())
      await expect(cut).rejects.toThrow()
    } finally {
      child.kill()
    }
  })
}
