import { expect, it } from '@jest/globals'
import type { Shop } from './use-shop.ts'

/** What the script takes from the browser, whose values the pages of these tests replace. */
export function testBrowsers(shop: Shop): void {
  const { open, sent } = shop

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
}
