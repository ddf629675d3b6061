import type { StaticPage } from './app.ts'
import { noteStyle } from './html-page.ts'
import { staticHtmlPage } from './static-html-page.ts'

/** `/` of a service that runs alone and has no page of its own. `about`: what the service does, as HTML. */
export function servicePage(name: string, about: string): StaticPage {
  return staticHtmlPage('/', {
    title: `Sluice: ${name}`,
    style: noteStyle,
    body: `<main>
<h1>Sluice: ${name}</h1>
<p>${about}</p>
<p>The dashboard and the reference of the interface are at the address of the query service.</p>
<p><a href="/readyz">Is it ready?</a></p>
</main>`,
  })
}
