import { createHash } from 'node:crypto'
import type { Headers } from './headers.ts'

/** The colours and sizes of the dashboard (packages/dashboard/src/styles/tokens.css), for pages without a script. */
const look = `
:root {
  color-scheme: light dark;
  --paper: #fafaf7; --sheet: #fff; --ink: #1a1f24; --muted: #59626b; --line: #e3e5e1; --accent: #0a6a74;
  font: 14px/20px system-ui, -apple-system, 'Segoe UI', sans-serif;
  font-variant-numeric: tabular-nums;
}
@media (prefers-color-scheme: dark) {
  :root { --paper: #0f1214; --sheet: #15191c; --ink: #e7eaec; --muted: #9ba5ad; --line: #283036; --accent: #55c3c4 }
}
body { margin: 0; background: var(--paper); color: var(--ink) }
main { box-sizing: border-box; background: var(--sheet); border: 1px solid var(--line); border-radius: 6px; padding: 24px }
h1 { margin: 0 0 12px; font-size: 20px; line-height: 28px; font-weight: 600 }
p { margin: 0 0 12px }
a { color: var(--accent) }
code { font: 13px/20px ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', monospace }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
`

/** A page of a few sentences: one sheet in the middle. */
export const noteStyle = `
main { max-width: 560px; margin: 15vh auto 24px }
main > :last-child { margin-bottom: 0 }
small { font-size: 12px; line-height: 16px; color: var(--muted); overflow-wrap: anywhere }
@media (max-width: 607px) { main { margin: 24px 16px } }
`

/** A page: its title as text, its own CSS, and its body as HTML. */
export interface HtmlPage {
  title: string
  /** Added to the look that all pages share. */
  style: string
  body: string
}

/**
 * A page as a document with its headers. Its content security policy allows its one style, by the hash, and no other
 * resource. Title and body must be HTML already.
 */
export function renderHtml({ title, style, body }: HtmlPage): { text: string; headers: Headers } {
  const css = look + style
  const hash = createHash('sha256').update(css).digest('base64')
  const text = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>${css}</style>
${body}
</html>
`
  return {
    text,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
    },
  }
}
