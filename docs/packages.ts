import { readdirSync, readFileSync } from 'node:fs'

/** The folder of a workspace package, `packages/http`, with the folders that its `dependencies` name. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>

const root = new URL('../', import.meta.url)
const groups = ['services', 'packages'] as const
const begin = '<!-- packages: written by npm run docs -->'
const end = '<!-- /packages -->'

interface PackageFile {
  name: string
  dependencies?: Record<string, string>
}

/**
 * docs/architecture.md with a drawing of the present packages and services between the two marking comments.
 * Throws when `page` lacks them.
 */
export function withPackagesDrawing(page: string): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/architecture.md lacks the comments ${begin} and ${end}`)
  return `${page.slice(0, from + begin.length)}\n\n${drawing(withoutIndirect(readImports()))}\n\n${page.slice(to)}`
}

/**
 * The imports between packages and services, tests apart: their `dependencies` in package.json, which knip compares
 * with the code.
 */
function readImports(): ImportGraph {
  const folders = groups.flatMap((group) =>
    readdirSync(new URL(group, root))
      .sort()
      .map((name) => `${group}/${name}`),
  )
  const files = folders.map((folder) => {
    const text = readFileSync(new URL(`${folder}/package.json`, root), 'utf8')
    return { folder, file: JSON.parse(text) as PackageFile }
  })
  const folderOf = new Map(files.map(({ folder, file }) => [file.name, folder]))
  return new Map(
    files.map(({ folder, file }) => [
      folder,
      Object.keys(file.dependencies ?? {}).flatMap((name) => folderOf.get(name) ?? []),
    ]),
  )
}

/** The graph without the imports that follow from others: A → C where A → B → C is there too. */
export function withoutIndirect(imports: ImportGraph): ImportGraph {
  const reaches = (from: string, to: string): boolean =>
    (imports.get(from) ?? []).some((next) => next === to || reaches(next, to))
  return new Map(
    [...imports].map(([folder, targets]) => [
      folder,
      targets.filter((target) => !targets.some((other) => other !== target && reaches(other, target))),
    ]),
  )
}

/** A flowchart in the language of Mermaid, which GitHub draws. */
function drawing(imports: ImportGraph): string {
  const folders = [...imports.keys()]
  const boxes = groups.flatMap((group) => [
    `  subgraph ${group}`,
    ...folders
      .filter((folder) => folder.startsWith(`${group}/`))
      .map((folder) => `    ${idOf(folder)}["${nameOf(folder)}"]`),
    '  end',
  ])
  const arrows = [...imports].flatMap(([from, targets]) => targets.map((to) => `  ${idOf(from)} --> ${idOf(to)}`))
  return ['```mermaid', 'flowchart TD', ...boxes, ...arrows, '```'].join('\n')
}

/** Words such as `end` and `graph` mean something to Mermaid; no id of this form does. */
function idOf(folder: string): string {
  return folder.replaceAll(/\W/g, '_')
}

function nameOf(folder: string): string {
  return folder.slice(folder.indexOf('/') + 1)
}
