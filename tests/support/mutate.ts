import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Plugin } from 'esbuild'

/** A change of one source file that puts a bug into the product. */
export interface Edit {
  /** Path from the root of the repository. */
  file: string
  /** A text that occurs exactly once in the file. */
  from: string
  to: string
}

/** Puts bugs into a bundle. The build fails when a text is not in its file exactly once. */
export function mutate(edits: readonly Edit[]): Plugin {
  const editsOf = Map.groupBy(edits, ({ file }) => fileURLToPath(new URL(`../../${file}`, import.meta.url)))
  return {
    name: 'mutate',
    setup: (building) => {
      building.onLoad({ filter: /\/packages\/sdk-[\w/-]+\.ts$/ }, async ({ path }) => {
        let contents = await readFile(path, 'utf8')
        for (const { file, from, to } of editsOf.get(path) ?? []) {
          if (contents.split(from).length !== 2)
            return { errors: [{ text: `${file} must hold exactly once: ${from}` }] }
          contents = contents.replace(from, () => to)
        }
        return { contents, loader: 'ts' }
      })
    },
  }
}
