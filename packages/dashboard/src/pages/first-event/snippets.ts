/** Complete programs that send one event, with the address of the collector and a key. */
export function snippetsOf(origin: string, key: string, siteId: string): Record<'curl' | 'browser' | 'node', string> {
  const site = JSON.stringify(siteId)
  const event = {
    site_id: siteId,
    event_type: 'page_view',
    url: 'https://example.com/',
    user_id: 'u_1',
    session_id: 's_1',
  }
  const shell = JSON.stringify(event).replaceAll("'", String.raw`'\''`)
  return {
    curl: `curl -X POST '${origin}/collect' \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '${shell}'`,
    // A text needs no preflight; `</script` inside the script would end it.
    browser: `<script>
  // One session for each tab, so that visitors and sessions are counted.
  const sessionId = sessionStorage.getItem('session_id') ?? Math.random().toString(36).slice(2)
  sessionStorage.setItem('session_id', sessionId)
  fetch('${origin}/collect?api_key=${key}', {
    method: 'POST',
    keepalive: true,
    body: JSON.stringify({
      site_id: ${site.replaceAll('<', String.raw`\u003c`)},
      event_type: 'page_view',
      url: location.href,
      referrer: document.referrer,
      session_id: sessionId,
    }),
  })
</script>`,
    node: `const response = await fetch('${origin}/collect', {
  method: 'POST',
  headers: {
    Authorization: 'Bearer ${key}',
    'Content-Type': 'application/json',
  },
  body: JSON.stringify({
    site_id: ${site},
    event_type: 'signed_up',
    user_id: 'u_1',
    session_id: 's_1',
    properties: { plan: 'team', seats: 5 },
  }),
})
console.log(response.status) // 202`,
  }
}
