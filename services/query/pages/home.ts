import type { Page } from '@sluice/http/app'
import { htmlPage } from './html-page.ts'

const style = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 3rem auto; padding: 0 1rem }
pre { padding: 1rem; overflow-x: auto; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: 6px }
code { font: 0.9rem/1.5 ui-monospace, monospace }
`

/** `/`: the first commands, with this server's address filled in, until the dashboard replaces the page. */
export const homePage: Page = htmlPage('/', {
  title: 'Sluice',
  style,
  body: (origin) => `<main>
<h1>Sluice is running</h1>
<p>Send a first event with your key, the one that the first start printed:</p>
<pre><code>export SLUICE_URL=${origin}
export SLUICE_KEY=svc_prod_…
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
<p>Everything that is served: <a href="/docs">the HTTP interface</a>.</p>
</main>`,
})
