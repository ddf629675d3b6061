import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Route } from 'playwright-core'
import { readCsv } from './support/numbers.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'
const badRows = 10_000
const goodRows = 20

describeWithChromium('imports', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.call('POST', '/api/v1/sites', { site_id: siteId })
  })
  afterAll(() => rig.stop())

  const open = async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/imports`)
    await page.getByRole('button', { name: 'Import a file' }).first().click()
    return { page, dialog: page.getByRole('dialog') }
  }

  /** A new page, and the id of an import with errors. */
  const openFailed = async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const { imports } = await rig.call<{ imports: { job_id: string; failed_records: number }[] }>(
      'GET',
      `/api/v1/imports?site_id=${siteId}`,
    )
    return { page, id: imports.find((each) => each.failed_records > 0)?.job_id ?? '' }
  }

  /** The answer to a request with other fields in its `data`. */
  const answerWith = async (route: Route, fields: object) => {
    const answer = (await (await route.fetch()).json()) as { data: object }
    return { ...answer, data: { ...answer.data, ...fields } }
  }

  const file = (name: string, content: string) => ({ name, mimeType: 'text/csv', buffer: Buffer.from(content) })

  it('of a file with 10,000 bad rows go on through a reload, and tell each error as a row and in the CSV', async () => {
    const time = Date.now() - 60_000
    const rows = [
      ...Array.from({ length: badRows }, (_, n) => `click,yesterday ${n}`),
      ...Array.from({ length: goodRows }, (_, n) => `click,${time + n}`),
    ]
    const { page, dialog } = await open()
    await dialog.getByLabel('File').setInputFiles(file('events.csv', `event_type,timestamp_ms\n${rows.join('\n')}\n`))
    await dialog.getByText('The header is right.').waitFor()
    await dialog.getByRole('button', { name: 'Import', exact: true }).click()
    await page.waitForURL(/open=imp_/)
    await page.reload()
    await page.getByText('10,000 records failed').waitFor()
    await waitUntilPasses(async () => {
      const numbers = page.getByRole('dialog').locator('[data-number]')
      const shown = await numbers.evaluateAll((elements: { dataset: { number?: string } }[]) =>
        elements.map(({ dataset }) => Number(dataset.number)),
      )
      expect(shown.sort((a, b) => a - b)).toEqual([badRows, badRows + goodRows, badRows + goodRows])
    })

    const errors = page.getByRole('region', { name: 'Errors' })
    const table = errors.getByRole('table')
    // The field has a column of its own.
    await waitUntilPasses(async () => expect(await errors.getByText(/^Must /).count()).toBeGreaterThan(0), 30_000)
    expect(await table.getAttribute('aria-rowcount')).toBe(String(badRows + 1))
    expect(await table.getByRole('row').count()).toBeLessThan(100)
    await table.focus()
    await waitUntilPasses(async () => {
      await page.keyboard.press('End')
      expect(await errors.getByText('10,001', { exact: true }).count()).toBe(1)
    })
    expect(await table.getByRole('row').count()).toBeLessThan(100)

    const [download] = await Promise.all([
      page.waitForEvent('download'),
      errors.getByRole('button', { name: 'Download CSV' }).click(),
    ])
    const [header, ...listed] = readCsv(await readFile(await download.path(), 'utf8'))
    expect(header).toEqual(['line', 'field', 'message', 'record'])
    expect(listed).toHaveLength(badRows)
    expect(listed.map(([line]) => Number(line))).toEqual(Array.from({ length: badRows }, (_, n) => n + 2))
  })

  it('are stopped by their buttons alone while the file is sent: neither Escape nor a click beside does', async () => {
    const { page, dialog } = await open()
    const held = Promise.withResolvers<undefined>()
    await page.route('**/api/v1/imports', async (route) => {
      if (route.request().method() === 'POST') await held.promise
      await route.continue()
    })
    const content = `event_type,timestamp_ms\nclick,${Date.now() - 1_000}\n`
    await dialog.getByLabel('File').setInputFiles(file('events.csv', content))
    await dialog.getByText('The header is right.').waitFor()
    const send = dialog.getByRole('button', { name: 'Import', exact: true })
    await send.click()
    const stop = dialog.getByRole('button', { name: 'Stop the upload' })
    await stop.click()
    await stop.waitFor({ state: 'detached' })
    await send.click()
    await stop.waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
    await page.mouse.click(5, 5)
    held.resolve(undefined)
    await page.waitForURL(/open=imp_/)
  })

  it('judge the header of the file that was chosen last, although another one is read later', async () => {
    const { page, dialog } = await open()
    await page.evaluate(`{
      const read = Blob.prototype.arrayBuffer
      globalThis.reads = []
      Blob.prototype.arrayBuffer = function () {
        return new Promise((resolve) => globalThis.reads.push(() => { resolve(read.call(this)) }))
      }
    }`)
    const letGo = (at: number) => page.evaluate(`globalThis.reads[${at}]()`)
    await dialog.getByLabel('File').setInputFiles(file('wrong.csv', 'event_type,colour\n'))
    await dialog.getByLabel('File').setInputFiles(file('right.csv', 'event_type,timestamp_ms\n'))
    await letGo(1)
    await dialog.getByText('The header is right.').waitFor()
    await letGo(0)
    // Both pieces have the bytes that this one waits for.
    await page.evaluate(`new Response(new Blob(['x'])).text()`)
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
    expect(await dialog.getByText('The header is right.').count()).toBe(1)
    expect(await dialog.getByText(/“colour” is not known/).count()).toBe(0)
  })

  it('whose errors as CSV can’t be reached say so in the words of the page', async () => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/ERR_FAILED/)
    await openSession(page, rig.url, rig.admin)
    const { imports } = await rig.call<{ imports: { job_id: string; failed_records: number }[] }>(
      'GET',
      `/api/v1/imports?site_id=${siteId}`,
    )
    const failed = imports.find((each) => each.failed_records > 0)
    await page.route(/\/api\/v1\/imports\/imp_\w+\/errors/, (route) =>
      route.request().headers().accept === 'text/csv' ? route.abort() : route.continue(),
    )
    await page.goto(`${rig.url}/sites/${siteId}/imports?open=${failed?.job_id ?? ''}`)
    await page.getByRole('button', { name: 'Download CSV' }).click()
    await page.getByText('Sluice can’t be reached. Check that it runs').waitFor()
  })

  it('show the errors of a running import although their number grows while they are loaded', async () => {
    const { page, id } = await openFailed()
    let polls = 0
    await page.route(/\/api\/v1\/imports\/imp_\w+$/, async (route) => {
      polls++
      const fields = { status: 'processing', failed_records: badRows + polls }
      await route.fulfill({ json: await answerWith(route, fields) })
    })
    await page.route(/\/api\/v1\/imports\/imp_\w+\/errors/, async (route) => {
      const before = polls
      await waitUntilPasses(() => expect(polls).toBeGreaterThan(before + 2))
      await route.fallback()
    })
    await page.goto(`${rig.url}/sites/${siteId}/imports?open=${id}`)
    await page
      .getByRole('region', { name: 'Errors' })
      .getByText(/^Must /)
      .first()
      .waitFor({ timeout: 30_000 })
  })

  it('have their end spoken while they are looked at', async () => {
    const { page, id } = await openFailed()
    let status = 'processing'
    await page.route(/\/api\/v1\/imports\/imp_\w+$/, async (route) => {
      await route.fulfill({ json: await answerWith(route, { status }) })
    })
    await page.goto(`${rig.url}/sites/${siteId}/imports?open=${id}`)
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Processing').waitFor()
    const announcer = dialog.locator('.announcer')
    expect(await announcer.textContent()).toBe('')
    status = 'completed'
    await waitUntilPasses(async () => expect(await announcer.textContent()).toBe('Completed'))
  })

  it('with more errors than a page has room for end with a word, and with a CSV of any size', async () => {
    const { page, id } = await openFailed()
    await page.addInitScript({
      content: `const { text } = Response.prototype
        Response.prototype.text = function () {
          const isFile = this.headers.get('Content-Type').startsWith('text/csv')
          return isFile ? Promise.reject(new RangeError('Invalid string length')) : text.call(this)
        }`,
    })
    const count = 1_000_000
    await page.route(/\/api\/v1\/imports\/imp_\w+$/, async (route) => {
      await route.fulfill({ json: await answerWith(route, { failed_records: count }) })
    })
    await page.route(/\/api\/v1\/imports\/imp_\w+\/errors\?/, async (route) => {
      const offset = Number(new URL(route.request().url()).searchParams.get('offset'))
      const errors = Array.from({ length: 1_000 }, (_, n) => ({ line: offset + n + 2, message: 'Wrong' }))
      await route.fulfill({ json: { success: true, data: { errors, total: count }, timestamp: Date.now() } })
    })
    await page.goto(`${rig.url}/sites/${siteId}/imports?open=${id}`)
    const errors = page.getByRole('region', { name: 'Errors' })
    await errors.getByText('The first 100,000 are listed. The CSV has all of them.').waitFor()
    await errors.getByRole('table').focus()
    await waitUntilPasses(async () => {
      await page.keyboard.press('End')
      expect(await errors.getByText('100,001', { exact: true }).count()).toBe(1)
    })
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      errors.getByRole('button', { name: 'Download CSV' }).click(),
    ])
    expect(readCsv(await readFile(await download.path(), 'utf8'))).toHaveLength(badRows + 1)
  })

  it('older than 30 days say that their errors are gone, and offer no retry', async () => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/status of 410/)
    await openSession(page, rig.url, rig.admin)
    const { imports } = await rig.call<{ imports: { job_id: string; failed_records: number }[] }>(
      'GET',
      `/api/v1/imports?site_id=${siteId}`,
    )
    const failed = imports.find((each) => each.failed_records > 0)
    await page.route(/\/api\/v1\/imports\/imp_\w+\/errors/, (route) =>
      route.fulfill({ status: 410, json: { success: false, error: 'The errors are gone', timestamp: Date.now() } }),
    )
    await page.goto(`${rig.url}/sites/${siteId}/imports?open=${failed?.job_id ?? ''}`)
    await page.getByText('The errors were kept for 30 days after the end of the import.').waitFor()
    expect(await page.getByRole('region', { name: 'Errors' }).getByRole('button').count()).toBe(0)
  })

  it.each([
    ['an unknown column', 'event_type,timestamp_ms,colour\n', /“colour” is not known/],
    ['a missing column', 'event_type,country\n', /“timestamp_ms” is missing/],
    ['no text', '\u0000\u0001\u0002', /not a text file|empty|unknown|missing/],
  ])('of a file with %s are stopped before the upload', async (_, content, pattern) => {
    const { page, dialog } = await open()
    const sent: string[] = []
    page.on('request', (request) => {
      if (request.method() === 'POST') sent.push(request.url())
    })
    await dialog.getByLabel('File').setInputFiles(file('events.csv', content))
    await dialog.getByRole('button', { name: 'Import', exact: true }).click()
    await dialog.getByText(pattern).first().waitFor()
    expect(sent).toEqual([])
  })
})
