import { expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { Shop } from './use-shop.ts'

/** What is sent and stored before and after a decision about consent. */
export function testConsent(shop: Shop): void {
  const { open, sent, tag } = shop

  it('sends nothing before consent, then what was held under its own time, and wipes all of it after a refusal', async () => {
    const { page } = await open({ 'data-consent': 'pending', 'data-storage': 'device' })
    const before = await page.evaluate<number>(`sluice.track('held').timestamp`)
    expect(await page.evaluate('sluice.flush()')).toEqual({ sent: 0, pending: 1, rejected: 0 })
    expect(await page.evaluate('localStorage.length')).toBe(0)
    await page.evaluate(`sluice.consent('granted'); sluice.flush()`)
    expect((await sent(1))[0]).toMatchObject({ event_type: 'held', timestamp: before, session_id: expect.any(String) })
    await page.evaluate(`sluice.consent('pending'); sluice.track('held again'); sluice.flush()`)
    await page.evaluate(`sluice.flush()`)
    expect(shop.proxy.events('held again')).toEqual([])
    await page.evaluate(`sluice.consent('granted'); sluice.flush()`)
    expect(await sent(1, 'held again')).toHaveLength(1)
    await page.evaluate(`sluice.consent('denied'); sluice.track('never'); sluice.flush()`)
    expect(await page.evaluate('localStorage.length')).toBe(0)
    expect(shop.proxy.events('never')).toEqual([])
  })

  it('sends nothing while consent is pending again, not even what was queued before, and all of it afterwards', async () => {
    const html = `<script>{
      window.posts = []
      const { fetch, setTimeout } = window
      window.fetch = (...call) => { if (/collect/.test(call[0])) posts.push(call[0]); return fetch(...call) }
      window.setTimeout = (run) => setTimeout(run)
    }</script>`
    const { page } = await open({}, html)
    const postsAfter = (step: string) =>
      page.evaluate(
        `{ posts.length = 0; ${step}; new Promise((resolve) => setTimeout(resolve)).then(() => posts.length) }`,
      )
    const steps = [
      `sluice.track('of a timer'); sluice.consent('pending')`,
      `dispatchEvent(new Event('visibilitychange'))`,
      `sluice.track('held')`,
      `sluice.flush()`,
    ]
    const posts: unknown[] = []
    for (const step of steps) posts.push(await postsAfter(step))
    expect(posts).toEqual([0, 0, 0, 0])
    expect(await page.evaluate('sluice.flush()')).toEqual({ sent: 0, pending: 2, rejected: 0 })
    await page.evaluate(`sluice.consent('granted')`)
    for (const type of ['of a timer', 'held']) expect(await sent(1, type)).toHaveLength(1)
    await page.evaluate('sluice.flush()')
    expect(await postsAfter(`sluice.track('alone'); sluice.consent('pending')`)).toBe(0)
    await page.evaluate(`sluice.consent('granted')`)
    expect(await sent(1, 'alone')).toHaveLength(1)
  })

  it('reports a decision that is none, which changes nothing', async () => {
    const { page } = await open(
      { 'data-consent': 'pending' },
      `<script>window.warned = []; console.warn = (text) => warned.push(text)</script>`,
    )
    await page.evaluate(`sluice.track('held'); sluice.consent('accepted')`)
    expect(await page.evaluate('warned')).toEqual([expect.stringMatching(/^Sluice: .*consent/)])
    await page.evaluate(`sluice.consent('granted'); sluice.consent('no'); sluice.track('granted'); sluice.flush()`)
    expect((await sent(2)).map(({ event_type }) => event_type)).toEqual(['held', 'granted'])
  })

  it('sends nothing that is being compressed at the moment of a refusal', async () => {
    const { page } = await open()
    await page.evaluate(`{
      const { blob } = Response.prototype
      Response.prototype.blob = function () { sluice.consent('denied'); return blob.call(this) }
      for (let n = 0; n < 20; n++) sluice.track('large', { text: 'x'.repeat(1_000) })
    }`)
    await page.evaluate('sluice.flush()')
    expect(shop.proxy.events('large')).toEqual([])
  })

  it('wipes after a refusal what visits before a privacy signal have stored', async () => {
    const { page, context } = await open({ 'data-storage': 'device' })
    await page.evaluate(`sluice.identify('ada'); sluice.flush()`)
    expect(await page.evaluate('localStorage.length')).toBe(1)
    shop.site.show(
      `<script>Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })</script>${tag({ 'data-storage': 'device' })}`,
    )
    await page.goto(`${shop.site.url}/private`)
    expect(await page.evaluate('localStorage.length')).toBe(1)
    await page.evaluate(`sluice.consent('denied')`)
    expect(await page.evaluate('localStorage.length')).toBe(0)
    await context.close()
  })

  it.each([
    ['device', 'tab'],
    ['device', 'none'],
    ['tab', 'device'],
  ])('wipes after a refusal what visits with the storage %s have left, in one with %s', async (former, present) => {
    shop.proxy.treat = () => ({ kind: 'cut-before' })
    const { page, context, expectMessages } = await open({ 'data-storage': former })
    expectMessages(/ERR_/)
    await page.evaluate(`sluice.identify('ada'); sluice.flush()`)
    // The tab of the former visit keeps its connection to the database; sessionStorage belongs to the tab.
    const later = former === 'device' ? await context.newPage() : page
    const visit = async (attributes: Record<string, string>) => {
      shop.site.show(tag({ 'data-auto-page': 'false', ...attributes }))
      await later.goto(`${shop.site.url}/later`)
    }
    await visit({ 'data-storage': present, 'data-consent': 'pending' })
    await later.evaluate(`sluice.consent('denied')`)
    expect(await later.evaluate('[localStorage.length, sessionStorage.length]')).toEqual([0, 0])
    await waitUntil(async () => (await later.evaluate<unknown[]>('indexedDB.databases()')).length === 0, 'no database')
    await visit({ 'data-storage': former })
    expect(await later.evaluate('sluice.flush()')).toEqual({ sent: 0, pending: 0, rejected: 0 })
    expect(await later.evaluate('sluice.context().user_id')).toBeUndefined()
  })

  it('keeps a reset in its place among the events that are held before consent', async () => {
    const { page } = await open({ 'data-consent': 'pending', 'data-storage': 'device' })
    await page.evaluate(`localStorage.setItem('sluice:shop', JSON.stringify({ user_id: 'grace' }))`)
    await page.evaluate(`sluice.track('of grace'); sluice.reset(); sluice.identify('ada'); sluice.reset()`)
    await page.evaluate(`sluice.track('of nobody'); sluice.consent('granted'); sluice.flush()`)
    const [ofNobody] = await sent(1, 'of nobody')
    expect(ofNobody).not.toHaveProperty('user_id')
    const userOf = (type: string) => shop.proxy.events(type).map(({ user_id }) => user_id)
    expect([userOf('of grace'), userOf('identify')]).toEqual([['grace'], ['ada']])
    expect(await page.evaluate('sluice.context().user_id')).toBeUndefined()
  })

  it('keeps a reset that is the oldest of too many calls', async () => {
    const { page } = await open({ 'data-consent': 'pending', 'data-storage': 'device' })
    await page.evaluate(`localStorage.setItem('sluice:shop', JSON.stringify({ user_id: 'grace' }))`)
    const fill = (type: string, count: number) => `for (let n = 0; n < ${count}; n++) sluice.track('${type}')`
    const userOf = (type: string) => new Set(shop.proxy.events(type).map(({ user_id }) => user_id))
    await page.evaluate(`sluice.track('of grace'); sluice.reset(); ${fill('of nobody', 102)}`)
    await page.evaluate(`sluice.consent('granted'); sluice.flush()`)
    // The reset is one of the hundred calls that are kept.
    expect(await sent(99, 'of nobody')).toHaveLength(99)
    expect([...userOf('of nobody')]).toEqual([undefined])
    expect((await sent(1, 'sluice_dropped'))[0]).toMatchObject({ properties: { count: 4 } })
    // Resets alone leave room for the newest events.
    await page.evaluate(
      `sluice.consent('pending'); for (let n = 0; n < 150; n++) { sluice.reset(); sluice.track('turn ' + n) }`,
    )
    await page.evaluate(`sluice.consent('granted'); sluice.flush()`)
    for (const n of [101, 149]) expect(await sent(1, `turn ${n}`)).toHaveLength(1)
  })
}
