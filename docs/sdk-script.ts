import { loadSdk, type SdkScript } from '@sluice/browser/load'

const begin = '<!-- script: written by npm run docs -->'
const end = '<!-- /script -->'

/**
 * docs/sdk/browser.md with the script element of the present version and its hash between the two marking comments,
 * and with a warning while the version is not released.
 * Throws when `page` lacks them.
 */
export function withPinnedScript(
  page: string,
  { version, integrity, released }: Pick<SdkScript, 'version' | 'integrity' | 'released'> = loadSdk(),
): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/sdk/browser.md lacks the comments ${begin} and ${end}`)
  const attributes = [
    `src="https://in.example/sluice.${version}.js"`,
    `integrity="${integrity}"`,
    'crossorigin',
    'data-site="shop"',
    'data-key="<key of the page>"',
  ]
  const element = `<script\n  defer\n${attributes.map((each) => `  ${each}\n`).join('')}></script>`
  const isReleased = released.some((each) => each.version === version)
  const note = `${version} is not released: its script and hash change until then. Pin it after the release.\n\n`
  const block = `\`\`\`html\n${element}\n\`\`\`\n\n${isReleased ? '' : note}`
  return `${page.slice(0, from + begin.length)}\n\n${block}${page.slice(to)}`
}
