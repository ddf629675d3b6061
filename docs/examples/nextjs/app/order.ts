'use client'
import type { Receipt } from '@sluice/node'

/** The browser SDK, /sluice.js, which the layout of the page loads. */
declare const sluice: { track(type: string, properties: object, receipt: Receipt): void }

/** Sends an order, and tracks it with the id and the time of the event that the route handler has tracked. */
export async function order(total: number): Promise<void> {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch('/api/orders', { method: 'POST', headers, body: JSON.stringify({ total }) })
  const { receipt } = (await response.json()) as { receipt: Receipt }
  sluice.track('order', { total }, receipt)
}
