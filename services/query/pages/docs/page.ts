import type { OpenApiDocument } from '@sluice/api/openapi/types'
import type { StaticPage } from '@sluice/http/app'
import { originPlaceholder, staticHtmlPage } from '@sluice/http/static-html-page'
import { fieldsTable, idOf } from './fields.ts'
import { escape, prose } from './html.ts'
import { type Entry, operationHtml } from './operation.ts'
import { style } from './style.ts'

/** `/docs`: the OpenAPI document as a page. It has no script and loads nothing, so that it works offline. */
export function docsPage(document: OpenApiDocument): StaticPage {
  return staticHtmlPage('/docs', { title: 'Sluice: HTTP interface', style, body: render(document) })
}

function render(document: OpenApiDocument): string {
  const { info, tags, components } = document
  const sections = tags.map(({ name }) => ({
    name,
    id: `section-${name.toLowerCase()}`,
    entries: entriesOf(document, name),
  }))
  const objects = Object.entries(components.schemas).filter(([name]) => name !== 'Success' && name !== 'Error')
  return `<a class="skip" href="#content">Skip to content</a>
<nav aria-label="Contents">
<p><a href="/">Sluice</a></p>
${sections
  .map(
    ({ name, id, entries }) => `<p><a href="#${id}">${escape(name)}</a></p>
<ul>
${entries.map(({ method, path, operation }) => `<li><a href="#${operation.operationId}"><code>${method} ${escape(path)}</code></a></li>`).join('\n')}
</ul>`,
  )
  .join('\n')}
<p><a href="#objects">Objects</a></p>
<ul>
${objects.map(([name]) => `<li><a href="#${idOf(name)}">${name}</a></li>`).join('\n')}
</ul>
</nav>
<main id="content">
<h1>HTTP interface</h1>
<p>${escape(info.title)} ${escape(info.version)}. For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
${prose(info.description)}
<p>The examples below take the address and the key from the shell:</p>
<pre><code>export SLUICE_URL=${originPlaceholder}
export SLUICE_KEY=svc_prod_…</code></pre>
${sections
  .map(
    ({ name, id, entries }) => `<section aria-labelledby="${id}">
<h2 id="${id}">${escape(name)}</h2>
${entries.map((entry) => operationHtml(entry, document)).join('\n')}
</section>`,
  )
  .join('\n')}
<section aria-labelledby="objects">
<h2 id="objects">Objects</h2>
${objects.map(([name, schema]) => `<h3 id="${idOf(name)}">${name}</h3>\n${fieldsTable(`Fields of ${name}`, schema)}`).join('\n')}
</section>
</main>`
}

function entriesOf({ paths }: OpenApiDocument, tag: string): Entry[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([, operation]) => operation.tags.includes(tag))
      .map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  )
}
