import { createHash } from 'node:crypto'
import type { Page } from '@sluice/http/app'

const style = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 3rem auto; padding: 0 1rem }
pre { padding: 1rem; overflow-x: auto; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: 6px }
code { font: 0.9rem/1.5 ui-monospace, monospace }
`

const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sluice</title>
<style>${style}</style>
<main>
<h1>Sluice is running</h1>
<p>Send a first event with your key, the one that the first start printed:</p>
<pre><code>export SLUICE_KEY=svc_prod_…
curl -s "$SLUICE_URL/collect" -H "Authorization: Bearer $SLUICE_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '{"site_id": "my-site", "event_type": "page_view", "session_id": "s1", "user_id": "ada"}'</code></pre>
<p>Ask how many there were in the last 24 hours:</p>
<pre><code>curl -s "$SLUICE_URL/api/v1/stats?site_id=my-site&amp;metric=event_count&amp;period=24h" \\
  -H "Authorization: Bearer $SLUICE_KEY"</code></pre>
<p>Load 10,000 events of a real web log: <code>npm run example</code>, then ask for its days:</p>
<pre><code>curl -s "$SLUICE_URL/api/v1/stats?site_id=web-log&amp;metric=unique_users&amp;group_by=day&amp;start_date=1431820800000&amp;end_date=1432166400000" \\
  -H "Authorization: Bearer $SLUICE_KEY"</code></pre>
<p>Make a key with least rights for each of your services:</p>
<pre><code>curl -s "$SLUICE_URL/api/v1/settings/keys" -H "Authorization: Bearer $SLUICE_KEY" \\
  -H 'Content-Type: application/json' -d '{"name": "web shop", "scopes": ["events:write"]}'</code></pre>
</main>
</html>
`

const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** `/`: the first commands, with this server's address filled in, until the dashboard takes the place. */
export const homePage: Page = {
  path: '/',
  handle: (request, response) => {
    // Hosts are letters, digits and a few marks; anything else could be markup and is not echoed.
    const host = /^[\w.:[\]-]+$/.test(request.headers.host ?? '') ? request.headers.host : 'localhost:8080'
    response.writeHead(200, {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy,
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
    })
    response.end(html.replace('export SLUICE_KEY', `export SLUICE_URL=http://${host ?? ''}\nexport SLUICE_KEY`))
  },
}
