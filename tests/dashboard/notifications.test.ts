import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type LocalServer, serveLocally } from './support/resources.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

describeWithChromium('notifications', () => {
  const visitors = useBrowser()
  const receiving = { isHealthy: false, isGone: false }
  const rule = {
    site_id: siteId,
    name: 'Alarms',
    condition: { metric: 'event_count', operator: 'greater_than', threshold: 4, window: '5m', event_type: 'alarm' },
    notification_type: 'webhook',
    notification_config: { url: 'http://127.0.0.1:9/' },
  }
  let rig: Rig
  let receiver: LocalServer

  beforeAll(async () => {
    rig = await startRig()
    receiver = await serveLocally((_request, response) => {
      if (receiving.isGone) response.writeHead(410).end()
      else response.writeHead(receiving.isHealthy ? 200 : 500).end(receiving.isHealthy ? 'thank you' : 'out of order')
    })
    await rig.call('POST', '/api/v1/sites', { site_id: siteId })
  })
  afterAll(async () => {
    receiver.stop()
    await rig.stop()
  })

  it('that a receiver failed are shown with its answers, replayed and recovered', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/webhooks`)
    await page.getByRole('button', { name: 'New webhook' }).first().click()
    const form = page.getByRole('dialog')
    await form.getByLabel('URL').fill(`${receiver.url}/hook`)
    const alerts = form.getByRole('checkbox', { name: 'Alerts' })
    if (!(await alerts.isChecked())) await alerts.check()
    await form.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByRole('button', { name: 'I have saved it' }).click()

    await page.getByRole('row').filter({ hasText: '/hook' }).getByText('/hook').first().click()
    const drawer = page.getByRole('dialog').first()
    await drawer.getByRole('button', { name: 'Test', exact: true }).first().click()
    const rows = drawer.getByRole('region', { name: 'Deliveries' }).getByRole('row')
    const deliveries = rows.filter({ hasText: /Waiting|Succeeded|Failed/ })
    // Any cell of a row opens its delivery.
    await deliveries.first().locator('td').last().click()
    await drawer.getByText('Answered 500').first().waitFor()
    await drawer.getByText('out of order').first().waitFor()
    receiving.isHealthy = true
    await drawer.getByRole('button', { name: 'Replay' }).click()
    await drawer.getByText('Answered 200').first().waitFor()
    await drawer.getByText('Succeeded').first().waitFor()

    receiving.isHealthy = false
    await drawer.getByRole('button', { name: 'All deliveries' }).click()
    for (const count of [2, 3]) {
      await drawer.getByRole('button', { name: 'Test', exact: true }).first().click()
      await waitUntilPasses(async () => expect(await deliveries.count()).toBe(count))
    }
    await waitUntilPasses(async () => {
      expect(await deliveries.filter({ hasText: 'Waiting' }).locator('[data-number="0"]').count()).toBe(0)
    })
    receiving.isHealthy = true
    await drawer.getByRole('button', { name: 'Recover' }).click()
    await page
      .getByRole('dialog', { name: /^Send again/ })
      .getByRole('button', { name: 'Recover', exact: true })
      .click()
    await waitUntilPasses(async () => {
      expect(await deliveries.filter({ hasText: 'Succeeded' }).count()).toBe(3)
    })
  })

  it('are sent again since a time of the site, which the field names, however the browser’s clock is set', async () => {
    const site = { site_id: 'kolkata', timezone: 'Asia/Kolkata' }
    await rig.call('POST', '/api/v1/sites', site)
    const { webhook_id: id } = await rig.call<{ webhook_id: string }>('POST', '/api/v1/webhooks', {
      site_id: site.site_id,
      url: 'http://127.0.0.1:9/',
      events: ['alert'],
    })
    await rig.call('POST', `/api/v1/webhooks/${id}/test`)
    const { page } = await visitors.open({ timezoneId: 'America/New_York' })
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${site.site_id}/webhooks?open=${id}`)
    const drawer = page.getByRole('dialog').first()
    await drawer.getByRole('button', { name: 'Recover' }).click()
    const form = page.getByRole('dialog', { name: /^Send again/ })
    const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)
    await form.getByLabel('Since (Asia/Kolkata)').fill(`${day}T12:00`)
    const request = page.waitForRequest(/\/recover$/)
    await form.getByRole('button', { name: 'Recover', exact: true }).click()
    expect((await request).postDataJSON()).toEqual({ since: Date.parse(`${day}T06:30Z`) })
    await form.waitFor({ state: 'detached' })
    const row = drawer
      .getByRole('region', { name: 'Deliveries' })
      .getByRole('row')
      .filter({ hasText: /Waiting|Failed/ })
    await row.getByRole('button').first().click()
    await drawer
      .getByRole('region', { name: 'Attempts' })
      .getByText(/GMT\+5:30|IST/)
      .first()
      .waitFor()
  })

  it('of a webhook that was switched off stay so when it is edited, until the box is ticked', async () => {
    receiving.isGone = true
    const body = { site_id: siteId, url: `${receiver.url}/gone`, events: ['alert'] }
    const { webhook_id: id } = await rig.call<{ webhook_id: string }>('POST', '/api/v1/webhooks', body)
    const path = `/api/v1/webhooks/${id}`
    const webhook = () => rig.call<{ disabled_at: number | null; events: string[] }>('GET', path)
    await rig.call('POST', `${path}/test`)
    await waitUntil(async () => (await webhook()).disabled_at !== null, 'the webhook is switched off')
    receiving.isGone = false
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/webhooks`)
    await page.getByRole('row').filter({ hasText: '/gone' }).getByText('/gone').first().click()
    const edit = page.getByRole('button', { name: 'Edit', exact: true })
    const form = page.getByRole('dialog', { name: /^Edit/ })
    const box = form.getByRole('checkbox', { name: 'Send deliveries' })
    const save = form.getByRole('button', { name: 'Save' })
    await edit.click()
    expect(await box.isChecked()).toBe(false)
    await form.getByRole('checkbox', { name: 'Finished exports' }).check()
    await save.click()
    await form.waitFor({ state: 'detached' })
    expect(await webhook()).toMatchObject({ disabled_at: expect.any(Number), events: ['alert', 'export.completed'] })
    await edit.click()
    await box.check()
    await save.click()
    await form.waitFor({ state: 'detached' })
    expect(await webhook()).toMatchObject({ disabled_at: null })
    // The page would ask once more for what is deleted.
    await page.close()
    await rig.call('DELETE', path)
  })

  it('of a rule that gets a webhook are signed with a secret, which is shown once', async () => {
    const slack = { ...rule, name: 'Moved', notification_type: 'slack' }
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', slack)
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    // The history comes while the button is pressed, which has to stay under the pointer.
    const pressed = Promise.withResolvers<undefined>()
    await page.route(/\/history\?/, async (route) => {
      await pressed.promise
      await route.fallback()
    })
    await page.goto(`${rig.url}/sites/${siteId}/alerts`)
    await page.getByRole('row').filter({ hasText: 'Moved' }).getByText('Moved').first().click()
    await page.getByRole('radio', { name: 'Webhook' }).check()
    await page.getByLabel('URL', { exact: true }).fill('http://127.0.0.1:9/moved')
    await page
      .getByText(/^It would/)
      .first()
      .waitFor()
    await page.getByRole('button', { name: 'Save', exact: true }).hover()
    await page.mouse.down()
    pressed.resolve(undefined)
    await page.getByText('Nothing has happened yet.').waitFor()
    await page.mouse.up()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('It signs the notifications, and is shown only once.').waitFor()
    await dialog.getByRole('button', { name: 'I have saved it' }).click()
    // The page would ask once more for what is deleted.
    await page.close()
    await rig.call('DELETE', `/api/v1/alerts/${id}`)
  })

  it('of a rule count the events that meet its conditions, which are added and edited one by one', async () => {
    const slack = { ...rule, name: 'Filtered', notification_type: 'slack' }
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', slack)
    const saved = async () => (await rig.call<{ condition: object }>('GET', `/api/v1/alerts/${id}`)).condition
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/alerts?open=${id}`)
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Add a condition' }).click({ timeout: 20_000 })
    await dialog.getByLabel('Property').fill('user')
    await page.keyboard.press('Tab')
    await dialog.getByLabel('Value').fill('u-1')
    await dialog.getByLabel('Value').press('Enter')
    await page.getByRole('button', { name: 'Edit filter: user is u-1' }).click()
    // Applying a condition does not save the rule.
    expect(await saved()).toEqual(rule.condition)
    await dialog.getByLabel('Value').fill('u-2')
    await dialog.getByRole('button', { name: 'Apply filter' }).click()
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    const filter = [{ property: 'user_id', operator: 'equals', value: 'u-2' }]
    await waitUntilPasses(async () => expect(await saved()).toEqual({ ...rule.condition, filter }), 20_000)
    await page.getByRole('button', { name: 'Remove filter: user is u-2' }).click()
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await waitUntilPasses(async () => expect(await saved()).toEqual(rule.condition), 20_000)
    // The page would ask once more for what is deleted.
    await page.close()
    await rig.call('DELETE', `/api/v1/alerts/${id}`)
  })

  it('are signed with a new secret, which is copied in a browser without a clipboard of its own', async () => {
    const body = { site_id: siteId, url: `${receiver.url}/rotated`, events: ['alert'] }
    const { webhook_id: id } = await rig.call<{ webhook_id: string }>('POST', '/api/v1/webhooks', body)
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    // As it is without https.
    await page.addInitScript(`
      globalThis.clipboard = navigator.clipboard
      Object.defineProperty(navigator, 'clipboard', { value: undefined })
    `)
    await page.goto(`${rig.url}/sites/${siteId}/webhooks?open=${id}`)
    await page.evaluate(`clipboard.writeText('nothing was copied')`)
    await page.getByRole('button', { name: 'Rotate secret' }).click()
    await page
      .getByRole('dialog', { name: /^Rotate/ })
      .getByRole('button', { name: 'Rotate secret' })
      .click()
    // The webhook's drawer stays open below.
    const dialog = page.getByRole('dialog', { name: 'Save this secret now' })
    await dialog.getByRole('button', { name: 'Copy' }).click()
    await page.locator('.toast', { hasText: 'Secret copied' }).waitFor()
    expect(await page.evaluate('clipboard.readText()')).toBe(await dialog.locator('.secret code').textContent())
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Copy')
    await page.close()
    await rig.call('DELETE', `/api/v1/webhooks/${id}`)
  })
})
