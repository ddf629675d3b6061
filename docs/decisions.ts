import { readdirSync, readFileSync } from 'node:fs'

const folder = new URL('decisions/', import.meta.url)

/** docs/decisions/README.md: the list of the decision records, by number, with the titles of their files. */
export function decisionsPage(): string {
  const names = readdirSync(folder).filter((name) => /^\d{3}-.+\.md$/.test(name))
  const rows = names.sort().map((name) => {
    const title = /^# (\d{3}) (.+)$/m.exec(readFileSync(new URL(name, folder), 'utf8'))
    if (title === null) throw new Error(`docs/decisions/${name} does not begin with "# <number> <title>"`)
    return `- [${title[1]}](${name}) ${title[2]}`
  })
  return `# Decisions

What was decided, why, what it costs and what was tried instead. A decision that has been replaced in part names its
successor. This list is made by \`npm run docs\`.

${rows.join('\n')}
`
}
