/** Complete programs that send one event, with the address of the collector and a key. */
export function snippetsOf(origin: string, key: string, siteId: string): Record<'curl' | 'browser' | 'node', string> {
  const site = JSON.stringify(siteId)
  const shell = JSON.stringify({ site_id: siteId, event_type: 'page_view', url: 'https://example.com/' }).replaceAll(
    "'",
    String.raw`'\''`,
  )
  return {
    curl: `curl -X POST '${origin}/collect' \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '${shell}'`,
    // A text needs no preflight; `</script` inside the script would end it.
    browser: `<script>
  fetch('${origin}/collect?api_key=${key}', {
    method: 'POST',
    keepalive: true,
    body: JSON.stringify({
      site_id: ${site.replaceAll('<', String.raw`\u003c`)},
      event_type: 'page_view',
      url: location.href,
      referrer: document.referrer,
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
    properties: { plan: 'team', seats: 5 },
  }),
})
console.log(response.status) // 202`,
  }
}
