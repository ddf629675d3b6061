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
    browser: `<script
  defer
  src="${origin}/sluice.js"
  data-site="${attribute(siteId)}"
  data-key="${key}"
></script>`,
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

/** A text as the value of an attribute of HTML in double quotes. */
function attribute(text: string): string {
  const named: Record<string, string> = { '&': '&amp;', '"': '&quot;', '<': '&lt;', '>': '&gt;' }
  return text.replaceAll(/[&"<>]/g, (mark) => named[mark] ?? mark)
}
