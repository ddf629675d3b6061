import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

const root = fileURLToPath(new URL('../', import.meta.url))
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /\.(md|ts|sql|py)$/.test(file) && existsSync(join(root, file)))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))

const anchorsByPage = new Map<string, ReadonlySet<string>>()

/** The anchors of a page; undefined when the page is missing. */
function anchorsOf(page: string): ReadonlySet<string> | undefined {
  const known = anchorsByPage.get(page)
  if (known !== undefined || !existsSync(join(root, page))) return known
  const anchors = new Set(readAnchors(readFileSync(join(root, page), 'utf8')))
  anchorsByPage.set(page, anchors)
  return anchors
}

/** Explicit anchors (`<a id="…">`), and the slugs that GitHub makes of headings: a repeated one gets a number. */
function readAnchors(markdown: string): string[] {
  const text = markdown.replaceAll(/^```.*?^```/gms, '')
  const explicit = [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id)
  const seen = new Map<string, number>()
  const slugs = [...text.matchAll(/^#+ +(.*)$/gm)].map(([, heading = '']) => {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-')
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    return count === 0 ? slug : `${slug}-${count}`
  })
  return [...explicit, ...slugs]
}

/**
 * The anchors that a file names, each with its page: in links of Markdown, and as `docs/<page>.md#<anchor>` anywhere.
 */
function citationsOf({ path, text }: { path: string; text: string }): { page: string; anchor: string }[] {
  const links = path.endsWith('.md') ? [...text.matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)] : []
  const linked = links.map(([, page = '', anchor = '']) => ({
    page: page === '' ? path : join(dirname(path), page),
    anchor,
  }))
  const cited = [...text.matchAll(/\b(docs\/[\w/-]+\.md)#([\w-]+)/g)].map(([, page = '', anchor = '']) => ({
    page,
    anchor,
  }))
  return [...linked, ...cited]
}

test('every anchor that a page links to or that the code cites exists', () => {
  const citations = files.flatMap((file) => citationsOf(file).map((citation) => ({ file: file.path, ...citation })))
  expect(citations.length).toBeGreaterThan(100)
  const missing = citations.filter(({ page, anchor }) => anchorsOf(page)?.has(anchor) !== true)
  expect(missing).toEqual([])
})

test('an explicit anchor is given once on its page', () => {
  const repeated = files.flatMap(({ path, text }) => {
    const ids = [...text.matchAll(/^<a id="([^"]+)">/gm)].map(([, id = '']) => id)
    return ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `${path}#${id}`)
  })
  expect(repeated).toEqual([])
})

test('no file cites a section of a document that is not in the repository', () => {
  const pattern = new RegExp(['contract', 'sections?\\b'].join('[\\s*/]+'), 'i')
  expect(files.filter(({ text }) => pattern.test(text)).map(({ path }) => path)).toEqual([])
})
