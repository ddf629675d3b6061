import { loadSdk } from '@sluice/browser/load'

const begin = '<!-- script: written by npm run docs -->'
const end = '<!-- /script -->'

/**
 * docs/sdk/browser.md with the script element of the present version and its hash between the two marking comments.
 * Throws when `page` lacks them.
 */
export function withPinnedScript(page: string): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/sdk/browser.md lacks the comments ${begin} and ${end}`)
  const { version, integrity } = loadSdk()
  const attributes = [
    `src="https://in.example/sluice.${version}.js"`,
    `integrity="${integrity}"`,
    'crossorigin',
    'data-site="shop"',
    'data-key="<key of the page>"',
  ]
  const element = `<script\n  defer\n${attributes.map((each) => `  ${each}\n`).join('')}></script>`
  return `${page.slice(0, from + begin.length)}\n\n\`\`\`html\n${element}\n\`\`\`\n\n${page.slice(to)}`
}
