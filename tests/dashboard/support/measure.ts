import { request } from 'node:http'
import type { Page } from 'playwright-core'

/** What a visit has cost so far; times in ms since the navigation began. */
export interface Measured {
  firstPaintMs: number
  /** When the first number of the page was there. */
  firstNumberMs: number
  /** Requests that had begun by then, the document included. */
  requestsToFirstNumber: number
  /** Sum of all layout shifts without a recent input. */
  layoutShift: number
  /** What shifted, for whoever has to mend it. */
  shifted: string[]
  /** The longest of all interactions so far: from the input to the next paint. */
  interactionMs: number
}

/** Runs before the scripts of the page, and records what the browser says about it. */
const recorder = `(() => {
  const seen = (globalThis.measured = { firstPaintMs: 0, firstNumberMs: 0, requestsToFirstNumber: 0, layoutShift: 0, shifted: [], interactionMs: 0 })
  const observe = (options, handle) => new PerformanceObserver((list) => list.getEntries().forEach(handle)).observe({ buffered: true, ...options })
  observe({ type: 'paint' }, (entry) => {
    if (entry.name === 'first-contentful-paint') seen.firstPaintMs = entry.startTime
  })
  observe({ type: 'layout-shift' }, (entry) => {
    if (entry.hadRecentInput) return
    seen.layoutShift += entry.value
    for (const { node } of entry.sources) seen.shifted.push(node?.outerHTML?.slice(0, 120) ?? String(node))
  })
  observe({ type: 'event', durationThreshold: 16 }, (entry) => {
    if (entry.interactionId > 0) seen.interactionMs = Math.max(seen.interactionMs, entry.duration)
  })
  const numbers = new MutationObserver(() => {
    const number = document.querySelector('[data-number]')
    if (!number || number.dataset.number === '') return
    seen.firstNumberMs = performance.now()
    seen.requestsToFirstNumber = 1 + performance.getEntriesByType('resource').length
    numbers.disconnect()
  })
  numbers.observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ['data-number'] })
})()`

/** Records from the next navigation on. */
export async function startMeasuring(page: Page): Promise<void> {
  await page.addInitScript({ content: recorder })
}

export async function measured(page: Page): Promise<Measured> {
  // Entries are handed to observers after the frame in which they were made.
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 100)))')
  return page.evaluate<Measured>('globalThis.measured')
}

/** Slows the page down as a cheap telephone on a slow line is: 4 × CPU, 10 Mbit/s. */
export async function slowDown(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page)
  const bytesPerSecond = 10_000_000 / 8
  await session.send('Network.enable')
  await session.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 0,
    downloadThroughput: bytesPerSecond,
    uploadThroughput: bytesPerSecond,
  })
  await session.send('Emulation.setCPUThrottlingRate', { rate: 4 })
}

/** Bytes of the body that a server sends to a client that takes gzip alone. */
export async function gzipBytes(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { headers: { 'Accept-Encoding': 'gzip' } }, (response) => {
      let bytes = 0
      response.on('data', (chunk: Buffer) => (bytes += chunk.length))
      response.on('end', () => resolve(bytes))
    })
    sent.on('error', reject).end()
  })
}
