// npm run docs: writes the pages that are made from code.
import { writeFile } from 'node:fs/promises'
import { configurationPage } from './configuration.ts'

await writeFile(new URL('configuration.md', import.meta.url), configurationPage())
