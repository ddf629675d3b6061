// Builds the script that the gateway serves into dist/, which load.ts reads. scripts/setup.mjs runs this file when the
// sources have changed.
import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { writeBuiltFile } from '@sluice/runtime/built-file'
import { bundle } from './bundle.ts'

const dist = fileURLToPath(new URL('dist', import.meta.url))
await rm(dist, { recursive: true, force: true })
await writeBuiltFile(`${dist}/sluice.js`, Buffer.from(await bundle('snippet')))
