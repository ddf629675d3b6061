import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { openApiDocument } from '@sluice/api/openapi/document'
import type { Operation } from '@sluice/api/operation'
import { operations } from '@sluice/api/operations'
import { connectRaw, keysInMemory, startTestService, type TestService } from '../../../../tests/support/test-service.ts'
import { docsPage } from './page.ts'

const document = openApiDocument(operations, { version: '1.2.3' })
const table: readonly Operation[] = Object.values(operations)

describe('GET /docs', () => {
  let service: TestService
  let headers: Headers
  let html: string

  beforeAll(async () => {
    service = await startTestService({ pages: [docsPage(document)] }, keysInMemory({}))
    const response = await fetch(`${service.url}/docs`)
    headers = response.headers
    html = await response.text()
  })
  afterAll(() => service.stop())

  /** The text without markup, as a reader sees it. */
  const text = (part: string): string =>
    part
      .replace(/<[^>]*>/g, '')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&amp;', '&')

  const articleOf = (id: string): string =>
    new RegExp(`<article aria-labelledby="${id}">[\\s\\S]*?</article>`).exec(html)?.[0] ?? ''

  it.each(table.map((operation) => [operation.id, operation] as const))(
    'describes the parameters and responses of %s',
    (id, operation) => {
      const article = text(articleOf(id))
      expect(article).toContain(`${operation.method} ${operation.path.replace(/:(\w+)/g, '{$1}')}`)
      expect(article).toContain(operation.summary)
      if (operation.scope !== 'public' && operation.scope !== 'authenticated')
        expect(article).toContain(operation.scope)
      expect(article).toMatch(new RegExp(`^${operation.response.status}`, 'm'))
      for (const name of Object.keys((operation.query?.describe() as { keys?: object } | undefined)?.keys ?? {})) {
        expect(articleOf(id)).toContain(`<th scope="row"><code>${name}</code></th>`)
      }
    },
  )

  it('shows the rules of a field', () => {
    expect(articleOf('createKey')).toContain(
      '<th scope="row"><code>name</code></th><td>string</td><td>required; 1 to 128 characters; not blank</td>',
    )
    expect(articleOf('createKey')).toContain(
      '<th scope="row"><code>rate_limits.events_per_minute</code></th><td>integer</td><td>1 to 10000000</td>',
    )
    expect(articleOf('listKeys')).toContain('<td>default <code>50</code>; 1 to 1000</td>')
  })

  it('shows the rule of a body', () =>
    expect(articleOf('createErasure')).toMatch(/<p>Body: .* Exactly one of the fields\.<\/p>/))

  it('shows the fields and the file of a form', () => {
    const form = articleOf('createImport')
    expect(form).toContain('<th scope="row"><code>site_id</code></th><td>string</td><td>required; 1 to 64 characters')
    expect(form).toContain('<th scope="row"><code>file</code></th><td>file</td><td>required</td>')
  })

  it('has an example for each operation, which a shell reads as one command with the right path', async () => {
    const commands = [...html.matchAll(/<pre><code>(curl [\s\S]*?)<\/code><\/pre>/g)].map(([, command = '']) =>
      text(command),
    )
    expect(commands).toHaveLength(table.length)
    for (const [index, command] of commands.entries()) {
      const { stdout } = await promisify(execFile)('bash', ['-c', `curl() { printf '%s\\n' "$@"; }\n${command}`], {
        env: { SLUICE_URL: 'http://here', SLUICE_KEY: 'key' },
      })
      const words = stdout.split('\n')
      const url = words.find((word) => word.startsWith('http://here')) ?? ''
      expect(new URL(url).pathname).toMatch(new RegExp(`^${table[index]?.path.replace(/:\w+/g, '[\\w-]+') ?? ''}$`))
      const body = words[words.indexOf('-d') + 1] ?? ''
      if (words.includes('-d')) expect(JSON.parse(body)).toBeInstanceOf(Object)
    }
  })

  it('runs no script, loads nothing and allows only its own style', () => {
    const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(html) ?? []
    const hash = createHash('sha256').update(style).digest('base64')
    expect(headers.get('content-security-policy')).toContain(`default-src 'none'; style-src 'sha256-${hash}'`)
    expect(html).not.toMatch(/<script|<link|<img|\ssrc=|\sstyle=|\son\w+=|url\(|@import/i)
    const targets = [...html.matchAll(/href="([^"]*)"/g)].map(([, target = '']) => target)
    expect(targets.filter((target) => !target.startsWith('#') && !target.startsWith('/'))).toEqual([])
  })

  it('has a place for each link, and one name for each place', () => {
    const ids = [...html.matchAll(/\sid="([^"]*)"/g)].map(([, id = '']) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const named = [...html.matchAll(/(?:href="#|aria-labelledby=")([^"]*)"/g)].map(([, id = '']) => id)
    expect(named.filter((id) => !ids.includes(id))).toEqual([])
  })

  it('can be used without eyes or mouse: it has a language, landmarks, table headers and a link past the contents', () => {
    expect(html).toContain('<html lang="en">')
    expect(html).toContain('<nav aria-label="Contents">')
    expect(html).toContain('<a class="skip" href="#content">')
    const tables = html.match(/<table>[\s\S]*?<\/table>/g) ?? []
    expect(tables.filter((each) => !each.includes('<caption>') || !each.includes('<th scope="col">'))).toEqual([])
    const levels = [...html.matchAll(/<h(\d)/g)].map(([, level]) => Number(level))
    expect(levels.filter((level, index) => level > (levels[index - 1] ?? 0) + 1)).toEqual([])
  })

  it('links to the dashboard', () => expect(html).toContain('<a href="/">'))

  it('shows the address of the request, unless that could be markup', async () => {
    expect(html).toContain(`export SLUICE_URL=${service.url}`)
    const raw = await connectRaw(service.port)
    raw.send('GET /docs HTTP/1.1\r\nHost: <b>\r\nConnection: close\r\n\r\n')
    const response = await raw.closed
    expect(response).not.toContain('<b>')
    expect(response).toContain('export SLUICE_URL=http://localhost:8080')
  })

  it('shows the address of the gateway in the examples of its operations', async () => {
    const apart = openApiDocument(operations, { version: '1.2.3', collectUrl: 'https://collect.example' })
    const other = await startTestService({ pages: [docsPage(apart)] }, keysInMemory({}))
    try {
      const page = text(await (await fetch(`${other.url}/docs`)).text())
      expect(page).toContain('curl -s "https://collect.example/collect"')
      expect(page).toContain('curl -s "https://collect.example/v1/projects/')
      expect(page).toContain('curl -s "$SLUICE_URL/api/v1/stats?')
    } finally {
      await other.stop()
    }
  })

  it('shows the address behind a proxy as the client sees it', async () => {
    const proxied = await startTestService({ pages: [docsPage(document)] }, keysInMemory({}), undefined, {
      SLUICE_TRUSTED_PROXIES: ['loopback'],
    })
    try {
      const response = await fetch(`${proxied.url}/docs`, {
        headers: { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'stats.example.com' },
      })
      expect(await response.text()).toContain('export SLUICE_URL=https://stats.example.com\n')
    } finally {
      await proxied.stop()
    }
  })
})
