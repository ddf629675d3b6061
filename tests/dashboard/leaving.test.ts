import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

describeWithChromium('leaving a page', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.call('POST', '/api/v1/sites', { site_id: siteId })
  })
  afterAll(() => rig.stop())

  /** Opens a page of the site, and by a link of the navigation another one. */
  const open = async (path: string, link: string): Promise<Page> => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}${path}`)
    await page.getByRole('link', { name: link, exact: true }).click()
    return page
  }
  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).first().click()
  const expectPath = (page: Page, path: string) =>
    waitUntilPasses(() => expect(new URL(page.url()).pathname).toBe(path))
  /** Two frames: what an event has changed is rendered. */
  const painted = (page: Page) =>
    page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')

  it('by Back takes no secret along that is shown once', async () => {
    const page = await open('/live', 'API Keys')
    await press(page, 'Create key')
    const form = page.getByRole('dialog')
    await form.getByLabel('Name').fill('Web shop')
    await form.getByRole('button', { name: 'Create key' }).click()
    const secret = page.locator('.secret')
    await secret.getByText(/svc_prod_\w{34}/).waitFor()
    const key = await secret.textContent()
    for (let times = 0; times < 2; times++) {
      await page.goBack()
      await expectPath(page, '/settings/keys')
      await painted(page)
      expect(await secret.textContent()).toBe(key)
    }
    await press(page, 'I have saved it')
    await page.getByRole('row').filter({ hasText: 'Web shop' }).waitFor()
    // The history is as it was.
    await page.goBack()
    await expectPath(page, `/sites/${siteId}/live`)
    await page.goForward()
    await expectPath(page, '/settings/keys')
    await page.goBack()
    await expectPath(page, `/sites/${siteId}/live`)
    await page.getByRole('heading', { name: 'Live' }).first().waitFor()
  })

  it('by a sign-out leaves a document to Back that has nothing of the session, and looks for another', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/settings/session`)
    const who = page.getByText(/^key_/)
    await who.waitFor()
    // The document is not left, so that what the browser would keep of it can be seen.
    await page.route('**/signin', (route) => route.fulfill({ status: 204 }))
    // Nor does a check of the session answer.
    await page.route('**/api/v1/session', (route) =>
      route.request().method() === 'GET' ? undefined : route.continue(),
    )
    await press(page, 'Sign out')
    await page.getByLabel('API key').waitFor()
    expect(await who.count()).toBe(0)
    // The reader knows why the session has ended.
    expect(await page.getByRole('alert').count()).toBe(0)
    await page.unroute('**/api/v1/session')
    await openSession(page, rig.url, rig.admin)
    await page.evaluate(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)
    await who.waitFor()
  })

  it('by Back does not stop a file that is sent', async () => {
    const page = await open('/live', 'Imports')
    await press(page, 'Import a file')
    const held = Promise.withResolvers<undefined>()
    await page.route('**/api/v1/imports', async (route) => {
      if (route.request().method() === 'POST') await held.promise
      await route.continue()
    })
    const dialog = page.getByRole('dialog')
    const content = `event_type,timestamp_ms\nclick,${Date.now() - 1_000}\n`
    await dialog
      .getByLabel('File')
      .setInputFiles({ name: 'events.csv', mimeType: 'text/csv', buffer: Buffer.from(content) })
    await dialog.getByText('The header is right.').waitFor()
    await dialog.getByRole('button', { name: 'Import', exact: true }).click()
    const stop = dialog.getByRole('button', { name: 'Stop the upload' })
    await stop.waitFor()
    await page.goBack()
    await expectPath(page, `/sites/${siteId}/imports`)
    await painted(page)
    expect(await stop.count()).toBe(1)
    held.resolve(undefined)
    await page.waitForURL(/open=imp_/)
  })

  /** Presses a button; its request gets its answer when the function that is returned is called. */
  const pressHeld = async (page: Page, name: string, method: string, path: RegExp) => {
    const held = Promise.withResolvers<undefined>()
    await page.route(path, async (route) => {
      if (route.request().method() === method) await held.promise
      await route.fallback()
    })
    const sent = page.waitForRequest((request) => request.method() === method && path.test(request.url()))
    await press(page, name)
    await sent
    return () => held.resolve(undefined)
  }

  it.each([
    ['is created', 'Webhook'],
    ['gets a webhook in place of another target', 'Slack'],
  ])('waits while an alert rule %s, so that its secret is seen', async (_, target) => {
    const page = await open('/live', 'Alerts')
    await press(page, 'New alert')
    await page.getByLabel('Name', { exact: true }).fill('Signups')
    await page.getByRole('radio', { name: target }).check()
    await page.getByLabel(/^URL/).fill('http://127.0.0.1:9/')
    /** Tries a link and Back, which lead away once nothing is under way. */
    const expectKept = async () => {
      const before = await page.evaluate<string>('location.href')
      for (const leave of [
        () => page.getByRole('link', { name: 'Events', exact: true }).click(),
        () => page.goBack(),
      ]) {
        await leave()
        await waitUntilPasses(async () => expect(await page.evaluate('location.href')).toBe(before))
        await painted(page)
        expect(await page.getByRole('dialog').count()).toBe(0)
        expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Signups')
      }
    }
    const answerCreation = await pressHeld(page, 'Create alert', 'POST', /\/api\/v1\/alerts$/)
    await expectKept()
    answerCreation()
    if (target !== 'Webhook') {
      await page.getByRole('heading', { name: 'Signups' }).waitFor()
      await page.getByRole('radio', { name: 'Webhook' }).check()
      const answerSave = await pressHeld(page, 'Save', 'PUT', /\/api\/v1\/alerts\/[^/]+$/)
      await expectKept()
      answerSave()
    }
    await page.locator('.secret').waitFor()
    await press(page, 'I have saved it')
    await page.getByRole('heading', { name: 'Signups' }).waitFor()
    await page.getByRole('link', { name: 'Events', exact: true }).click()
    await expectPath(page, `/sites/${siteId}/events`)
    await page.getByRole('heading', { name: 'Events' }).first().waitFor()
  })

  it('by Back just after an edit of a funnel leaves the edit, too', async () => {
    const now = Date.now()
    await rig.send(
      ['seen', 'tried', 'bought'].map((event_type, n) => ({
        site_id: 'funnels',
        event_type,
        timestamp: now - 60_000 + n,
        event_id: event_type,
        session_id: 'one',
      })),
    )
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.clock.install()
    await page.goto(`${rig.url}/sites/funnels/funnels?steps=seen%3Etried%3Ebought`)
    const expectSteps = (steps: string) =>
      waitUntilPasses(() => expect(new URL(page.url()).searchParams.get('steps')).toBe(steps))
    await press(page, 'Move step 2 up')
    await expectSteps('tried>seen>bought')
    // Both within the time for which the address waits.
    await page.evaluate(`{
      const button = [...document.querySelectorAll('button')].find((each) => each.textContent === 'Move step 3 up')
      button.click()
      history.back()
    }`)
    await expectSteps('seen>tried>bought')
    await painted(page)
    await page.clock.runFor(1_000)
    await expectSteps('seen>tried>bought')
    expect(await page.getByLabel('Event of step 1').inputValue()).toBe('seen')
  })

  it('by Cancel while a site is added does not lead to the site later', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url)
    await press(page, 'Add a site')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Site ID').fill('cancelled')
    const held = Promise.withResolvers<undefined>()
    await page.route('**/api/v1/sites', async (route) => {
      await held.promise
      await route.fallback()
    })
    const sent = page.waitForRequest('**/api/v1/sites')
    await dialog.getByRole('button', { name: 'Add a site' }).click()
    await sent
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await dialog.waitFor({ state: 'detached' })
    held.resolve(undefined)
    await page.getByRole('row').filter({ hasText: 'cancelled' }).waitFor({ timeout: 30_000 })
    await painted(page)
    expect(page.url()).toBe(`${rig.url}/`)
  })

  it('asks before the changes of an alert rule are lost, whatever leads away, and only then', async () => {
    const page = await open('/live', 'Alerts')
    const alerts = `/sites/${siteId}/alerts`
    await press(page, 'New alert')
    const name = page.getByLabel('Name', { exact: true })
    const question = page.getByRole('dialog', { name: 'Leave without saving?' })
    const expectKept = async (isNew: boolean) => {
      await question.getByRole('button', { name: 'Cancel' }).click()
      await question.waitFor({ state: 'detached' })
      await waitUntilPasses(() =>
        expect(new URL(page.url()).searchParams.get('open')).toMatch(isNew ? /^new$/ : /^alr_/),
      )
      expect(await name.inputValue()).toBe('Orders')
    }
    // Nothing is changed yet.
    await name.waitFor()
    await page.goBack()
    await press(page, 'New alert')
    await name.fill('Orders')
    await page.goBack()
    await expectKept(true)
    await press(page, 'All alerts')
    await expectKept(true)
    await page.getByRole('link', { name: 'Events', exact: true }).click()
    await expectKept(true)
    await page.getByRole('heading', { level: 1 }).focus()
    await page.keyboard.press('g')
    await page.keyboard.press('o')
    await expectKept(true)
    const asked = page.waitForEvent('dialog')
    const reloading = page.evaluate('location.reload()')
    const unload = await asked
    expect(unload.type()).toBe('beforeunload')
    await unload.dismiss()
    await reloading
    expect(await name.inputValue()).toBe('Orders')

    // What is created has no changes to lose.
    await page.getByRole('radio', { name: 'Slack' }).check()
    await page.getByLabel(/^URL of/).fill('http://127.0.0.1:9/')
    await press(page, 'Create alert')
    await page.getByRole('heading', { name: 'Orders' }).waitFor()
    expect(await question.count()).toBe(0)
    await page.getByLabel('Threshold').fill('7')
    await page.goBack()
    await expectKept(false)
    expect(await page.getByLabel('Threshold').inputValue()).toBe('7')
    await press(page, 'Save')
    await page.locator('.toast', { hasText: 'Saved' }).waitFor()
    await press(page, 'All alerts')
    await page.getByRole('row').filter({ hasText: 'Orders' }).getByText('Orders').first().click()
    await page.getByLabel('Threshold').fill('9')
    await page.goBack()
    await question.getByRole('button', { name: 'Leave', exact: true }).click()
    await page.getByRole('row').filter({ hasText: 'Orders' }).waitFor()
    expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe(alerts)
  })
})
