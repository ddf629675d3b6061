// npm run docs: writes the pages that are made from code.
import { writeFile } from 'node:fs/promises'
import { configurationPage } from './configuration.ts'
import { limitsPage } from './limits.ts'
import { rightsPage } from './rights.ts'

await writeFile(new URL('configuration.md', import.meta.url), configurationPage())
await writeFile(new URL('limits.md', import.meta.url), limitsPage())
await writeFile(new URL('rights.md', import.meta.url), rightsPage())
