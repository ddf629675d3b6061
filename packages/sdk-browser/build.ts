// Builds the scripts that the gateway serves into dist/, which load.ts reads. scripts/setup.mjs runs this file when the
// sources have changed.
import { fileURLToPath } from 'node:url'
import { bundle } from './bundle.ts'
import manifest from './package.json' with { type: 'json' }
import { writeScripts } from './write-scripts.ts'

await writeScripts({
  latest: { version: manifest.version, contents: Buffer.from(await bundle('snippet')) },
  released: fileURLToPath(new URL('released', import.meta.url)),
  dist: fileURLToPath(new URL('dist', import.meta.url)),
})
