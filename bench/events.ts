/** A plausible event of some 300 bytes with an id of its own, as a careful producer sends it. */
export function benchEvent(n: number, pass = 'bench'): object {
  return {
    event_id: `${n.toString(36).padStart(8, '0')}-${pass}`,
    site_id: 'shop',
    event_type: n % 9 === 0 ? 'purchase' : 'page_view',
    timestamp: Date.now() - (n % 60_000),
    session_id: `session-${n % 5_000}`,
    user_id: `user-${n % 2_000}`,
    url: `https://shop.example.com/products/${n % 500}?utm_source=newsletter`,
    referrer: 'https://www.example.org/search',
    country: n % 3 === 0 ? 'DE' : 'US',
    device_type: n % 2 === 0 ? 'mobile' : 'desktop',
    properties: { plan: 'pro', price: 19.99, quantity: n % 5 },
  }
}
