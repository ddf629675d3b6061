import type { Receipt } from '@sluice/node'

/** The browser SDK, which the layout loads; before it has loaded, a queue of calls. */
declare global {
  interface Window {
    sluice?: { q: unknown[][] }
  }
}

/** Sends an order, and tracks it with the id and the time of the event that the route handler has tracked: Sluice stores one event. */
export async function order(total: number): Promise<void> {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch('/api/orders', { method: 'POST', headers, body: JSON.stringify({ total }) })
  if (!response.ok) throw new Error(`the shop answered ${response.status}`)
  const { receipt } = (await response.json()) as { receipt: Receipt }
  window.sluice ??= { q: [] }
  window.sluice.q.push(['track', 'purchase', { total }, receipt])
}
